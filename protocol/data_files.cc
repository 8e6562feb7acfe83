#include "protocol/data_files.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace strata::protocol {
namespace {

constexpr size_t kDigitsPerPart = 4;  // see DataFile.parts

// The first byte of the first part that differs; -1: not known.
int64_t WhereDiffers(const v1::DataFile& was, const v1::DataFile& is) {
  const std::string &before = was.parts(), &now = is.parts();
  if (before.size() != now.size() || before.size() < kDigitsPerPart) return -1;
  const auto first = std::mismatch(before.begin(), before.end(), now.begin()).first;
  if (first == before.end()) return -1;
  const auto parts = static_cast<int64_t>(before.size() / kDigitsPerPart);
  const int64_t part = (first - before.begin()) / static_cast<int64_t>(kDigitsPerPart);
  return static_cast<int64_t>(static_cast<__int128>(is.bytes()) * part / parts);
}

}  // namespace

std::string ChangeOf(const v1::DataFile& was, const v1::DataFile& is) {
  if (was.bytes() != is.bytes()) {
    return absl::StrCat("its size went from ", was.bytes(), " to ", is.bytes(), " bytes");
  }
  if (was.digest() == is.digest()) return "";
  const int64_t at = WhereDiffers(was, is);
  if (at < 0) return absl::StrCat("its content differs, in as many bytes (", is.bytes(), ")");
  return absl::StrCat("its content differs from about byte ", at, " of ", is.bytes(), " on");
}

std::string ChangeOf(const DataFiles& were, const DataFiles& are) {
  if (were.size() != are.size()) {
    return absl::StrCat("there are ", are.size(), " data files, there were ", were.size());
  }
  for (int i = 0; i < were.size(); ++i) {
    const std::string change = ChangeOf(were[i], are[i]);
    if (!change.empty()) return absl::StrCat(are[i].path(), ": ", change);
  }
  return "";
}

}  // namespace strata::protocol
