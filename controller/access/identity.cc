#include "controller/access/identity.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace strata::controller {
namespace {

constexpr size_t kLongestName = 63;

bool IsIdentityName(absl::string_view name) {
  const auto plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  return !name.empty() && name.size() <= kLongestName && plain(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return plain(c) || c == '-' || c == '.'; });
}

}  // namespace

std::string Identity::ToString() const {
  switch (kind) {
    case Kind::kUser:
      return absl::StrCat("users/", name);
    case Kind::kNode:
      return absl::StrCat("nodes/", name);
    case Kind::kController:
      return "controller";
    case Kind::kNobody:
      break;
  }
  return "";
}

absl::StatusOr<Identity> ParseIdentity(absl::string_view text, absl::string_view by) {
  Identity identity;
  identity.by = std::string(by);
  if (text == "controller") {
    identity.kind = Identity::Kind::kController;
    return identity;
  }
  absl::string_view name = text;
  if (absl::ConsumePrefix(&name, "users/")) identity.kind = Identity::Kind::kUser;
  if (absl::ConsumePrefix(&name, "nodes/")) identity.kind = Identity::Kind::kNode;
  if (identity.kind == Identity::Kind::kNobody || !IsIdentityName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat(text,
                     " is nobody's name: users/NAME, nodes/NAME or controller, NAME of at "
                     "most 63 letters, digits, '-', '.' and '_'"));
  }
  identity.name = std::string(name);
  return identity;
}

}  // namespace strata::controller
