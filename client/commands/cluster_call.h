// What the commands that speak to a controller share.
#ifndef STRATA_CLIENT_COMMANDS_CLUSTER_CALL_H_
#define STRATA_CLIENT_COMMANDS_CLUSTER_CALL_H_

#include <google/protobuf/duration.pb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/api/api_client.h"
#include "client/command_line/command.h"
#include "client/decide_layout.h"
#include "client/server_address.h"

namespace strata::client {

// Says after a second of silence that it waits. With the environment's credentials: errors are
// those of CredentialsFor and AuthorizationFor.
absl::StatusOr<std::unique_ptr<ApiClient>> ClientOf(const ServerAddress& address,
                                                    Terminal& terminal);

// The controller that --server, STRATA_SERVER or the last `strata up` names. Prints what is wrong
// and returns null with its exit code in `code` otherwise.
std::unique_ptr<ApiClient> Reach(const Arguments& arguments, Terminal& terminal, int& code);

// What `auto` is decided with: what the cluster has learned of plans and what its nodes hold (asked
// for when it is needed; of a cluster that does not answer within some seconds it is told, and
// nothing is known; without a cluster nothing is), and who hears of what takes long. Borrows
// `terminal`.
DecisionBasis DeciderFor(const absl::StatusOr<ServerAddress>& server, int64_t memory_bytes,
                         const std::string& profile, Terminal& terminal);

// The same for what runs on this machine: what its own runs have taught comes before what the
// cluster knows (local_families.h).
DecisionBasis DeciderHere(const std::string& profile, Terminal& terminal);

// Prints why a call failed and returns the exit code.
int FailCall(const absl::Status& status, Terminal& terminal);
// The same; what does not exist is named as the user typed it. `kind`: "job", "node", ….
int FailCallAbout(absl::string_view kind, absl::string_view name, const absl::Status& status,
                  Terminal& terminal);

// "faulty" and "jobs/faulty" are both jobs/faulty.
std::string JobResource(absl::string_view typed);
std::string NodeResource(absl::string_view typed);

// `90m`, of a flag. InvalidArgument names it.
absl::StatusOr<google::protobuf::Duration> DurationOf(absl::string_view flag,
                                                      const std::string& text);

// The pieces of the table of commands.
Command ClusterCommand(std::string name, std::string usage, std::string summary,
                       std::vector<std::string> arguments, size_t most_arguments,
                       std::vector<Flag> flags, int (*run)(const Arguments&, Terminal&));

inline bool IsStructured(absl::string_view output) { return output == "json" || output == "yaml"; }

// `get projects|queues` and, with a name, `get project|queue NAME`.
int GetProjects(ApiClient& client, const std::string& name, const std::string& output,
                Terminal& terminal);
int GetQueues(ApiClient& client, const std::string& name, const std::string& output,
              Terminal& terminal);

// `get nodes --watch`: all nodes, then each that changes, until it is interrupted.
int WatchNodes(ApiClient& client, const std::string& output, Terminal& terminal);

// `get policy`: the policy in use, as a file that `strata apply` takes.
int GetWholePolicy(ApiClient& client, const std::string& output, Terminal& terminal);
// `get audit [FILTER]`, newest first.
int GetAudit(ApiClient& client, const std::string& filter, const std::string& output,
             Terminal& terminal);

Command SubmitCommand();
Command ApplyCommand();
std::vector<Command> AuthorityCommands();  // authority, certificate
Command TokenCommand();
Command BackupCommand();
std::vector<Command> ChangeCommands();        // cancel, update, suspend, delete
std::vector<Command> NodeCommands();          // drain, resume
std::vector<Command> QueryCommands();         // get, describe, explain, events
std::vector<Command> FollowCommands();        // watch, logs, wait
std::vector<Command> AccessCommands();        // whoami
std::vector<Command> LocalClusterCommands();  // up, down

}  // namespace strata::client

#endif  // STRATA_CLIENT_COMMANDS_CLUSTER_CALL_H_
