// apply; get projects and queues.
#include <string>

#include "absl/strings/str_cat.h"
#include "client/api/errors.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/text_file.h"
#include "client/views/policy_view.h"
#include "common/status_macros.h"
#include "spec/policy_file.h"
#include "spec/prescan.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

absl::StatusOr<spec::PolicyFile> LoadPolicy(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, spec::kMostBytes, "policy file"));
  spec::Problems problems(path);
  spec::PolicyFile file = spec::ReadPolicy(text, problems);
  RETURN_IF_ERROR(problems.ToStatus());
  return file;
}

bool IsChange(const v1::PolicyChange& change) {
  return change.action() != v1::PolicyChange::UNCHANGED;
}

// "project/nlp", of what changed; scheduling and timing have no names.
std::string ChangedNames(const v1::ApplyPolicyResponse& applied) {
  std::string names;
  for (const v1::PolicyChange& change : applied.changes()) {
    if (!IsChange(change)) continue;
    absl::StrAppend(&names, change.kind(), change.name().empty() ? "" : "/", change.name(), "\n");
  }
  return names;
}

int Apply(const Arguments& arguments, Terminal& terminal) {
  const std::string& path = arguments.positional()[0];
  const absl::StatusOr<spec::PolicyFile> file = LoadPolicy(path);
  if (!file.ok()) return Fail(file.status(), terminal);
  int code = kExitDone;
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return code;
  v1::ApplyPolicyRequest request;
  *request.mutable_policy() = file->policy;
  request.set_validate_only(arguments.Has("--validate-only"));
  const absl::StatusOr<v1::ApplyPolicyResponse> applied = client->ApplyPolicy(request);
  if (!applied.ok()) {
    return FailCall(AtPositions(applied.status(), path, file->positions), terminal);
  }
  const std::string output = arguments.Text("--output", "table");
  if (IsStructured(output)) {
    terminal.Out(ToText(ToJson(*applied), output));
  } else {
    terminal.Out(output == "name" ? ChangedNames(*applied) : ChangesText(*applied));
  }
  if (request.validate_only()) {
    terminal.Say("--validate-only: that is what would change; nothing has");
  }
  return kExitDone;
}

using EntriesJson = Json (*)(const v1::GetPolicyResponse&, const std::string&);

int GetEntries(ApiClient& client, absl::string_view kind, const std::string& name,
               const std::string& output, EntriesJson entries_json,
               std::string (*table)(const Json&), Terminal& terminal) {
  const absl::StatusOr<v1::GetPolicyResponse> policy = client.GetPolicy();
  if (!policy.ok()) return FailCall(policy.status(), terminal);
  const Json entries = entries_json(*policy, name);
  if (!name.empty() && entries.empty()) {
    return FailCallAbout(kind, name, absl::NotFoundError(""), terminal);
  }
  if (IsStructured(output)) {
    terminal.Out(ToText(name.empty() ? entries : entries[0], output));
  } else if (output == "name") {
    for (const Json& entry : entries) terminal.Out(entry["name"].get<std::string>() + "\n");
  } else {
    terminal.Out(table(entries));
  }
  return kExitDone;
}

}  // namespace

int GetProjects(ApiClient& client, const std::string& name, const std::string& output,
                Terminal& terminal) {
  return GetEntries(client, "project", name, output, &ProjectsJson, &ProjectTable, terminal);
}

int GetQueues(ApiClient& client, const std::string& name, const std::string& output,
              Terminal& terminal) {
  return GetEntries(client, "queue", name, output, &QueuesJson, &QueueTable, terminal);
}

Command ApplyCommand() {
  return ClusterCommand(
      "apply", "FILE [--validate-only]", "Declare projects, quotas, queues, scheduling and timing",
      {"FILE"}, 1,
      {{"--validate-only", Flag::Kind::kSwitch, "", "only check it and tell what would change"}},
      Apply);
}

}  // namespace strata::client
