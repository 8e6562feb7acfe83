#include "client/views/access_view.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace strata::client {

Json ToJson(const v1::Identity& identity) {
  Json roles = Json::array();
  for (const v1::Identity::Role& role : identity.roles()) {
    roles.push_back({{"role", role.role()}, {"project", role.project()}});
  }
  return {{"identity", identity.identity()},
          {"by", identity.by()},
          {"groups", std::vector<std::string>(identity.groups().begin(), identity.groups().end())},
          {"roles", roles}};
}

std::string IdentityText(const v1::Identity& identity) {
  if (identity.by() == "none") {
    return "nobody known: this controller tells callers not apart, and everybody who reaches it "
           "may "
           "do everything\n";
  }
  const std::string name = identity.identity().empty() ? "nobody known" : identity.identity();
  std::string text = absl::StrCat(name, " (by ", identity.by(), ")\n");
  if (!identity.groups().empty()) {
    absl::StrAppend(&text, "groups: ", absl::StrJoin(identity.groups(), ", "), "\n");
  }
  std::vector<std::string> roles;
  for (const v1::Identity::Role& role : identity.roles()) {
    const bool all = role.project() == "*";
    roles.push_back(
        absl::StrCat(role.role(), all ? "" : " in project ", all ? "" : role.project()));
  }
  absl::StrAppend(&text, "roles: ", roles.empty() ? "none" : absl::StrJoin(roles, ", "), "\n");
  return text;
}

}  // namespace strata::client
