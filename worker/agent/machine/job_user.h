// As whom a job's processes run on this node, and how they come to be that user's.
#ifndef STRATA_WORKER_AGENT_MACHINE_JOB_USER_H_
#define STRATA_WORKER_AGENT_MACHINE_JOB_USER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::worker {

// --run-as.
enum class RunAs {
  kAuto,    // kUser where systemd runs and the agent is root; else kDaemon
  kUser,    // as the job's owner; a job without one that this node knows is refused
  kDaemon,  // as the agent's own user
};

struct JobUser {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // all of them
};

// Of the node's user database. NotFound: it has none of this name.
absl::StatusOr<JobUser> FindUser(const std::string& name);

// What this machine lets the agent do.
struct Powers {
  bool root = false;     // it may become other users
  bool systemd = false;  // the service manager runs here
};
Powers PowersOfThisProcess();

struct Decision {
  std::optional<JobUser> user;  // absent: the agent's own
  // To be said wherever people look: that it is not the owner, and why.
  std::string notice;
};

// For a job of `owner`, which may be empty. InvalidArgument: it may not run here so.
absl::StatusOr<Decision> DecideUser(RunAs mode, const Powers& powers, const std::string& owner);

// What the agent does at its start cannot be told later: which mode is in force, for its log.
std::string DescribeMode(RunAs mode, const Powers& powers);

// A unit of systemd beside the agent's: stopping or restarting the agent leaves it alone.
struct Scope {
  std::string unit;
  std::vector<std::string> properties;  // NAME=VALUE
  // With a /tmp of its own, as PrivateTmp= gives services: systemd knows no such thing for scopes.
  bool private_tmp = false;
};

// Whether a process that is to see these paths may have a /tmp of its own.
bool NoneInTmp(const std::vector<std::string>& paths);

// The command that makes another one run as `user`: that one's path, name and arguments follow it.
// `scope`: in which it runs, where systemd does. `systemd_run`: path of that program.
std::vector<std::string> LaunchCommand(const JobUser& user, const std::optional<Scope>& scope,
                                       const std::string& own_binary,
                                       const std::string& systemd_run = "/usr/bin/systemd-run");

// strata-worker --exec-as [--private-tmp] USER PATH NAME ARGUMENTS: becomes that user, with its
// groups, its HOME and no way back, and then the program at PATH under NAME. Returns only when that
// fails, told on stderr.
int ExecAs(std::vector<std::string> arguments);

// While one lives, this thread's file operations are the user's: the kernel checks every path as it
// would for them, and what is made belongs to them. Without a user nothing changes.
class AsUser {
 public:
  explicit AsUser(const std::optional<JobUser>& user);
  ~AsUser();
  AsUser(const AsUser&) = delete;
  AsUser& operator=(const AsUser&) = delete;

 private:
  bool changed_ = false;
  std::vector<gid_t> groups_;  // the thread's before
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_JOB_USER_H_
