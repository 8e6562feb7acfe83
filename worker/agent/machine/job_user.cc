#include "worker/agent/machine/job_user.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/limits.h>
#include <pwd.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/path_roots.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr size_t kEntryBytes = 64 << 10;  // of the user database
constexpr int kCannotExec = 126;          // as shells say
constexpr char kPrivateTmp[] = "--private-tmp";

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
  std::string home;
};

absl::StatusOr<Account> Look(const std::string& name) {
  std::vector<char> text(kEntryBytes);
  passwd entry = {};
  passwd* found = nullptr;
  const int error = getpwnam_r(name.c_str(), &entry, text.data(), text.size(), &found);
  if (found != nullptr) return Account{entry.pw_uid, entry.pw_gid, entry.pw_dir};
  return error == 0 || error == ENOENT
             ? absl::NotFoundError(absl::StrCat("this node knows no user ", name))
             : absl::UnavailableError(absl::StrCat("user ", name, ": ", strerror(error)));
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "strata-worker --exec-as: %s: %s\n", what.c_str(), strerror(errno));
  return kCannotExec;
}

// For good: real, effective and saved.
bool Become(const JobUser& user) {
  return setgroups(user.groups.size(), user.groups.data()) == 0 &&
         setresgid(user.gid, user.gid, user.gid) == 0 &&
         setresuid(user.uid, user.uid, user.uid) == 0 &&
         prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && setuid(0) != 0;
}

// From now on this process, and what it starts, have folders of their own there: empty, in memory,
// gone with the last of them.
bool HideTmp() {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV;
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) == 0 &&
         mount("tmpfs", "/tmp", "tmpfs", kFlags, "mode=1777") == 0 &&
         mount("tmpfs", "/var/tmp", "tmpfs", kFlags, "mode=1777") == 0;
}

}  // namespace

absl::StatusOr<JobUser> FindUser(const std::string& name) {
  ASSIGN_OR_RETURN(const Account account, Look(name));
  JobUser user = {name, account.uid, account.gid, {}};
  int count = 32;
  user.groups.resize(static_cast<size_t>(count));
  while (getgrouplist(name.c_str(), user.gid, user.groups.data(), &count) < 0) {
    user.groups.resize(static_cast<size_t>(count));
  }
  user.groups.resize(static_cast<size_t>(count));
  return user;
}

Powers PowersOfThisProcess() {
  return {.root = geteuid() == 0, .systemd = access("/run/systemd/system", F_OK) == 0};
}

absl::StatusOr<Decision> DecideUser(RunAs mode, const Powers& powers, const std::string& owner) {
  const bool as_user =
      mode == RunAs::kUser || (mode == RunAs::kAuto && powers.root && powers.systemd);
  const auto refused = [&](const std::string& why) -> absl::StatusOr<Decision> {
    return absl::InvalidArgumentError(
        absl::StrCat(why, ", and jobs run as their owners on this node (",
                     mode == RunAs::kUser ? "--run-as=user"
                                          : "its agent is root, and systemd runs; see --run-as",
                     ")"));
  };
  if (owner.empty()) {
    if (!as_user) return Decision{};
    return refused("nobody is known to have submitted it");
  }
  const absl::StatusOr<JobUser> user = FindUser(owner);
  const bool own = user.ok() && user->uid == geteuid();
  if (own && (user->uid != 0 || !as_user)) return Decision{};  // they are the same
  if (!as_user) {
    return Decision{std::nullopt, absl::StrCat("its processes run as the agent's user, not as ",
                                               owner, " (", DescribeMode(mode, powers), ")")};
  }
  if (!powers.root) return refused("the agent is not root and cannot become " + owner);
  if (absl::IsUnavailable(user.status())) return user.status();
  if (!user.ok()) return refused(std::string(user.status().message()));
  if (user->uid == 0) return refused("no job runs as root");
  return Decision{*user, ""};
}

std::string DescribeMode(RunAs mode, const Powers& powers) {
  if (mode == RunAs::kDaemon) return "--run-as=daemon";
  if (mode == RunAs::kUser) return "--run-as=user";
  if (!powers.root) return "the agent is not root";
  return powers.systemd ? "the agent is root" : "systemd does not run here; --run-as=user insists";
}

bool NoneInTmp(const std::vector<std::string>& paths) {
  return std::none_of(paths.begin(), paths.end(), [](const std::string& path) {
    return common::LiesBeneath(path, "/tmp") || common::LiesBeneath(path, "/var/tmp");
  });
}

std::vector<std::string> LaunchCommand(const JobUser& user, const std::optional<Scope>& scope,
                                       const std::string& own_binary,
                                       const std::string& systemd_run) {
  std::vector<std::string> command;
  if (scope.has_value()) {
    // For a scope systemd-run becomes the command itself: it stays our child, by its number, and
    // keeps the descriptors that it inherits.
    command = {systemd_run,
               "--scope",
               "--quiet",
               "--collect",
               "--slice=strata.slice",
               "--unit=" + scope->unit};
    for (const std::string& property : scope->properties) {
      command.push_back("--property=" + property);
    }
    command.push_back("--");
  }
  command.insert(command.end(), {own_binary, "--exec-as"});
  if (scope.has_value() && scope->private_tmp) command.emplace_back(kPrivateTmp);
  command.push_back(user.name);
  return command;
}

int ExecAs(std::vector<std::string> arguments) {
  const bool private_tmp = !arguments.empty() && arguments[0] == kPrivateTmp;
  if (private_tmp) arguments.erase(arguments.begin());
  if (arguments.size() < 3) {
    std::fprintf(stderr, "usage: strata-worker --exec-as [%s] USER PATH NAME [ARGUMENTS]\n",
                 kPrivateTmp);
    return kCannotExec;
  }
  const absl::StatusOr<JobUser> user = FindUser(arguments[0]);
  const absl::StatusOr<Account> account = Look(arguments[0]);
  if (!user.ok() || !account.ok() || user->uid == 0) {
    std::fprintf(stderr, "strata-worker --exec-as: %s\n",
                 user.ok() ? "no job runs as root" : std::string(user.status().message()).c_str());
    return kCannotExec;
  }
  // Opened as the agent: the user need not reach the folder that it lies in.
  const int program = open(arguments[1].c_str(), O_PATH | O_CLOEXEC);
  if (program < 0) return Fail(arguments[1]);
  // As with PrivateTmp=, where the kernel or a container forbids it the job runs all the same.
  if (private_tmp && !HideTmp()) Fail("it shares /tmp with others, for a /tmp of its own failed");
  if (!Become(*user)) return Fail("becoming " + arguments[0]);
  setenv("HOME", account->home.c_str(), 1);
  setenv("USER", arguments[0].c_str(), 1);
  setenv("LOGNAME", arguments[0].c_str(), 1);
  umask(0077);
  std::vector<char*> argv;
  for (size_t i = 2; i < arguments.size(); ++i) {
    argv.push_back(const_cast<char*>(arguments[i].c_str()));
  }
  argv.push_back(nullptr);
  syscall(SYS_execveat, program, "", argv.data(), environ, AT_EMPTY_PATH);
  return Fail(arguments[1]);
}

AsUser::AsUser(const std::optional<JobUser>& user) {
  if (!user.has_value()) return;
  const int count = getgroups(0, nullptr);
  groups_.resize(static_cast<size_t>(count));
  STRATA_CHECK(getgroups(count, groups_.data()) == count);
  // The system calls are the thread's own; the C library's would change the whole process.
  STRATA_CHECK(syscall(SYS_setgroups, user->groups.size(), user->groups.data()) == 0);
  setfsgid(user->gid);
  setfsuid(user->uid);
  changed_ = true;
  STRATA_CHECK(static_cast<uid_t>(setfsuid(static_cast<uid_t>(-1))) == user->uid);
}

AsUser::~AsUser() {
  if (!changed_) return;
  setfsuid(geteuid());
  setfsgid(getegid());
  STRATA_CHECK(syscall(SYS_setgroups, groups_.size(), groups_.data()) == 0);
}

}  // namespace strata::worker
