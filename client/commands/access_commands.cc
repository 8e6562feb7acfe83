// whoami; get policy, get audit: who may do what, and who did what.
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/cluster_call.h"
#include "client/exit_codes.h"
#include "client/views/access_view.h"
#include "client/views/policy_view.h"
#include "common/clock.h"
#include "spec/policy_file.h"

namespace strata::client {
namespace {

int WhoAmI(const Arguments& arguments, Terminal& terminal) {
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  const absl::StatusOr<v1::Identity> identity = client->GetIdentity();
  if (!identity.ok()) return FailCall(identity.status(), terminal);
  const std::string output = arguments.Text("--output", "table");
  if (IsStructured(output)) {
    terminal.Out(ToText(ToJson(*identity), output));
  } else {
    terminal.Out(output == "name" ? identity->identity() + "\n" : IdentityText(*identity));
  }
  return kExitDone;
}

}  // namespace

int GetWholePolicy(ApiClient& client, const std::string& output, Terminal& terminal) {
  const absl::StatusOr<v1::GetPolicyResponse> policy = client.GetPolicy();
  if (!policy.ok()) return FailCall(policy.status(), terminal);
  if (output == "json") {
    Json json = PolicyJson(policy->policy());
    for (const char* list : {"projects", "queues"}) {
      for (Json& entry : json[list]) {
        if (entry["description"] == "") entry.erase("description");  // no file has an empty one
      }
    }
    terminal.Out(ToText(json, output));
  } else {
    terminal.Out(output == "name" ? "policy\n" : spec::WritePolicy(policy->policy()));
  }
  return kExitDone;
}

int GetAudit(ApiClient& client, const std::string& filter, const std::string& output,
             Terminal& terminal) {
  const auto records = client.ListAuditRecords(filter);
  if (!records.ok()) return FailCall(records.status(), terminal);
  if (IsStructured(output)) {
    Json list = Json::array();
    for (const v1::AuditRecord& record : *records) list.push_back(ToJson(record));
    terminal.Out(ToText(list, output));
  } else if (output == "name") {
    for (const v1::AuditRecord& record : *records) {
      terminal.Out(absl::StrCat(record.sequence(), "\n"));
    }
  } else {
    terminal.Out(AuditTable(*records, common::WallSeconds()));
  }
  return kExitDone;
}

std::vector<Command> AccessCommands() {
  return {ClusterCommand("whoami", "", "Tell as whom the cluster knows you, and your roles", {}, 0,
                         {}, WhoAmI)};
}

}  // namespace strata::client
