#include "controller/service/requests/pages.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr size_t kDigits = 16;

std::string Check(const std::string& list, absl::string_view name) {
  return common::DigestOf(absl::StrCat("page of ", list, " after ", name)).substr(0, kDigits);
}

}  // namespace

std::string PageToken(const std::string& list, const std::string& last_name) {
  return absl::WebSafeBase64Escape(absl::StrCat(Check(list, last_name), last_name));
}

absl::StatusOr<Page> ReadPage(const std::string& list, int32_t page_size,
                              const std::string& token) {
  if (page_size < 0) {
    return InvalidField("page_size",
                        absl::StrCat(page_size, " is negative — use 0 for ", kDefaultPage));
  }
  Page page;
  page.size = page_size == 0 ? kDefaultPage : std::min(page_size, kLargestPage);
  if (token.empty()) return page;
  std::string text;
  const bool decoded = absl::WebSafeBase64Unescape(token, &text) && text.size() > kDigits;
  if (!decoded || text.substr(0, kDigits) != Check(list, text.substr(kDigits))) {
    return InvalidField("page_token", "is none that this list has given out — begin without one");
  }
  page.after = text.substr(kDigits);
  return page;
}

}  // namespace strata::controller
