// The commands that speak to a controller, and what they share.
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/api/errors.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/local_families.h"
#include "client/machine.h"
#include "client/server_address.h"
#include "client/views/job_view.h"
#include "common/status_macros.h"
#include "spec/problems.h"

namespace strata::client {

absl::StatusOr<std::unique_ptr<ApiClient>> ClientOf(const ServerAddress& address,
                                                    Terminal& terminal) {
  ApiOptions options;
  ASSIGN_OR_RETURN(options.credentials, CredentialsFor(address));
  ASSIGN_OR_RETURN(options.authorization, AuthorizationFor(address));
  options.on_silence = [&terminal, name = address.ToString()] {
    terminal.Say(absl::StrCat("waiting for ", name, " …"));
  };
  return MakeApiClient(address, options);
}

std::unique_ptr<ApiClient> Reach(const Arguments& arguments, Terminal& terminal, int& code) {
  const absl::StatusOr<ServerAddress> address = ResolveServer(arguments.Text("--server"));
  if (!address.ok()) {
    code = Fail(address.status(), terminal);
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<ApiClient>> client = ClientOf(*address, terminal);
  if (client.ok()) return *std::move(client);
  code = Fail(client.status(), terminal);
  return nullptr;
}

DecisionBasis DeciderFor(const absl::StatusOr<ServerAddress>& server, int64_t memory_bytes,
                         const std::string& profile, Terminal& terminal) {
  DecisionBasis basis{.memory_bytes = memory_bytes, .profile = profile};
  basis.say = [&terminal](const std::string& line) { terminal.Say(line); };
  if (!server.ok()) return basis;
  basis.learned = [&terminal, address = *server]() -> planner::LearnedFamilies {
    absl::Status status;
    if (const auto client = ClientOf(address, terminal); client.ok()) {
      const auto learned = (*client)->ListPlanFamilies();
      if (learned.ok()) return learned->families();
      status = learned.status();
    } else {
      status = client.status();
    }
    terminal.Say(absl::StrCat("auto: what earlier steps took is not known (", status.message(),
                              "): predictions are not corrected"));
    return {};
  };
  basis.room = [&terminal, address = *server](const std::string& device, int64_t ranks) {
    planner::RankRoom room;
    const absl::StatusOr<std::unique_ptr<ApiClient>> client = ClientOf(address, terminal);
    using Listed = absl::StatusOr<v1::ListNodesResponse>;
    const Listed listed = client.ok() ? (*client)->ListNodes() : Listed(client.status());
    if (!listed.ok()) {
      terminal.Say(absl::StrCat("auto: what the nodes hold is not known (",
                                listed.status().message(),
                                "): agents judge whether the layout fits"));
      return room;
    }
    for (const v1::Node& node : listed->nodes()) planner::TakeLeast(node, device, ranks, room);
    return room;
  };
  return basis;
}

DecisionBasis DeciderHere(const std::string& profile, Terminal& terminal) {
  DecisionBasis basis = DeciderFor(ResolveServer(""), UsableMemory(), profile, terminal);
  basis.room = nullptr;
  basis.learned = [&terminal, profile, of_cluster = basis.learned] {
    absl::StatusOr<planner::LearnedFamilies> own = LoadFamilies(profile);
    if (!own.ok()) terminal.Say(absl::StrCat("auto: ", own.status().message()));
    return Merged(own.ok() ? *std::move(own) : planner::LearnedFamilies(),
                  of_cluster == nullptr ? planner::LearnedFamilies() : of_cluster());
  };
  return basis;
}

int FailCall(const absl::Status& status, Terminal& terminal) {
  terminal.Error(status.message().empty() ? status.ToString() : std::string(status.message()));
  return ExitCodeOfCall(status);
}

int FailCallAbout(absl::string_view kind, absl::string_view name, const absl::Status& status,
                  Terminal& terminal) {
  if (!absl::IsNotFound(status)) return FailCall(status, terminal);
  const absl::string_view plain = absl::StripPrefix(name, absl::StrCat(kind, "s/"));
  terminal.Error(absl::StrCat("no ", kind, " ", spec::Shown(plain),
                              " on this cluster — strata get ", kind, "s lists them"));
  return ExitCodeOfCall(status);
}

std::string JobResource(absl::string_view typed) {
  return absl::StartsWith(typed, "jobs/") ? std::string(typed) : absl::StrCat("jobs/", typed);
}

std::string NodeResource(absl::string_view typed) {
  return absl::StartsWith(typed, "nodes/") ? std::string(typed) : absl::StrCat("nodes/", typed);
}

Command ClusterCommand(std::string name, std::string usage, std::string summary,
                       std::vector<std::string> arguments, size_t most_arguments,
                       std::vector<Flag> flags, int (*run)(const Arguments&, Terminal&)) {
  Command command;
  command.name = std::move(name);
  command.usage = std::move(usage);
  command.summary = std::move(summary);
  command.arguments = std::move(arguments);
  command.most_arguments = most_arguments;
  command.flags = std::move(flags);
  command.outputs = {"table", "json", "yaml", "name"};
  command.run = run;
  return command;
}

std::vector<Command> ClusterCommands() {
  std::vector<Command> all = LocalClusterCommands();
  all.push_back(SubmitCommand());
  all.push_back(ApplyCommand());
  all.push_back(BackupCommand());
  all.push_back(TokenCommand());
  for (auto* more : {&QueryCommands, &ChangeCommands, &FollowCommands, &NodeCommands,
                     &AccessCommands, &AuthorityCommands}) {
    for (Command& command : (*more)()) all.push_back(std::move(command));
  }
  return all;
}

}  // namespace strata::client
