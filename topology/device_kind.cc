#include "topology/device_kind.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::topology {

std::string KindOfProduct(absl::string_view product) {
  std::string kind;
  for (absl::string_view word :
       absl::StrSplit(product, absl::ByAnyChar(" -_"), absl::SkipEmpty())) {
    const std::string lower = absl::AsciiStrToLower(word);
    if (lower == "nvidia" || lower == "tesla" || lower == "geforce" || lower == "quadro") continue;
    if (!kind.empty()) return absl::StrCat(kind, "-", lower);
    if (lower != "rtx" && lower != "gtx") return lower;
    kind = lower;
  }
  return kind.empty() ? "gpu" : kind;
}

}  // namespace strata::topology
