#include "client/views/access_view.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/terminal/table.h"

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

Json ToJson(const v1::AuditRecord& record) {
  return {{"sequence", record.sequence()},     {"time", TimeText(record.time())},
          {"identity", record.identity()},     {"peer", record.peer()},
          {"method", record.method()},         {"resource", record.resource()},
          {"outcome", record.outcome()},       {"reason", record.reason()},
          {"request_id", record.request_id()}, {"certificate", record.certificate()}};
}

std::string AuditTable(const std::vector<v1::AuditRecord>& records, double now) {
  const auto shown = [](const std::string& text) { return text.empty() ? "-" : text; };
  std::vector<std::vector<std::string>> rows;
  for (const v1::AuditRecord& record : records) {
    rows.push_back({AgeText(now - static_cast<double>(record.time().seconds())),
                    shown(record.identity()), record.method(), shown(record.resource()),
                    record.outcome()});
    if (!record.reason().empty()) rows.back().push_back(record.reason());
  }
  return FormatTable({"AGE", "IDENTITY", "METHOD", "RESOURCE", "OUTCOME", "REASON"}, rows);
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
