#include "client/local_cluster/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "client/local_cluster/back_off.h"
#include "client/local_cluster/cluster_folder.h"
#include "client/local_cluster/spawn.h"
#include "client/local_cluster/stop.h"

namespace strata::client {
namespace {

constexpr int kLockTries = 40;
constexpr int kLockPauseMs =
    50;  // whoever asks whether there is a supervisor holds the lock briefly

void Log(absl::string_view text) {
  const absl::Time now = absl::FromUnixMicros(static_cast<int64_t>(1e6 * common::WallSeconds()));
  std::fprintf(stderr, "%s %s\n", absl::FormatTime(now, absl::UTCTimeZone()).c_str(),
               std::string(text).c_str());
}

struct Member {
  std::string name;
  std::vector<std::string> arguments;
  bool restart = true;
  BackOff back_off;
  ProcessId id = {};  // pid 0: not running
  int descriptor = -1;
  double started_at = 0;
  double start_at = 0;  // when it is not running; negative: never
  int restarts = 0;
};

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)),
                        ")");
  }
  return absl::StrCat("ended with exit code ", WEXITSTATUS(status));
}

class Supervisor {
 public:
  Supervisor(const ClusterFolder& folder, const ClusterShape& shape, const common::Clock& clock)
      : folder_(folder), clock_(clock) {
    members_.push_back(
        {"controller",
         {shape.binaries + "/strata-controller", "--listen", shape.listen.ToString(),
          "--metrics-listen", shape.metrics.ToString(), "--dir", folder.ControllerFolder(),
          "--ready-file", folder.ControllerFolder() + "/ready"}});
    if (shape.insecure_listen) members_.back().arguments.emplace_back("--insecure-listen");
    if (shape.has_topology) {
      for (const std::string& word : {std::string("--topology"), folder.TopologyFile()}) {
        members_.back().arguments.push_back(word);
      }
    }
    const ServerAddress reached = shape.listen.Reached();
    for (const ClusterNode& node : shape.nodes) {
      members_.push_back({node.name,
                          {shape.binaries + "/strata-worker", "--controller", reached.ToString(),
                           "--node", node.name, "--dir", folder.NodeFolder(node.name), "--devices",
                           absl::StrCat(node.devices), "--threads-per-device",
                           absl::StrCat(shape.threads_per_agent),
                           // The cluster is its user's own, and so are its jobs; root's, too.
                           "--run-as", "daemon"},
                          shape.no_restart.count(node.name) == 0});
      for (const auto& [level, value] : node.locality) {
        members_.back().arguments.emplace_back("--locality");
        members_.back().arguments.push_back(absl::StrCat(level, "=", value));
      }
    }
  }

  int Run() {
    sigset_t caught;
    sigemptyset(&caught);
    for (const int number : {SIGTERM, SIGINT}) sigaddset(&caught, number);
    sigprocmask(SIG_BLOCK, &caught, nullptr);
    signals_ = signalfd(-1, &caught, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals_ < 0) {
      Log(absl::StrCat("cannot watch signals: ", std::strerror(errno)));
      return 1;
    }
    Adopt();
    do {
      StartDue();
    } while (Wait());
    stopping_ = true;
    Record();
    Log("asked to stop");
    const absl::Status stopped = StopMembers(folder_, StopPatience(), clock_);
    Log(stopped.ok() ? "all processes have ended" : std::string(stopped.message()));
    return stopped.ok() ? 0 : 1;
  }

 private:
  void Adopt() {
    const Processes recorded = folder_.ReadProcesses();
    for (Member& member : members_) {
      const auto found = recorded.find(member.name);
      if (found == recorded.end() || found->second.id.pid == 0) continue;
      member.descriptor = OpenProcess(found->second.id);
      if (member.descriptor < 0) continue;
      member.id = found->second.id;
      member.started_at = clock_.Now();
      Log(absl::StrCat(member.name, " goes on as process ", member.id.pid));
    }
    Record();
  }

  void StartDue() {
    bool changed = false;
    for (Member& member : members_) {
      const bool due =
          member.descriptor < 0 && member.start_at >= 0 && clock_.Now() >= member.start_at;
      if (!due) continue;
      changed = true;
      member.started_at = clock_.Now();
      const absl::StatusOr<pid_t> pid = SpawnMember(member.arguments, folder_.LogOf(member.name));
      const auto id = pid.ok() ? ProcessWithPid(*pid) : std::nullopt;
      if (pid.ok() && id.has_value()) {
        member.id = *id;
        member.descriptor = OpenProcess(*id);
      }
      if (member.descriptor >= 0) {
        Log(absl::StrCat(member.name, " is process ", member.id.pid));
        continue;
      }
      Plan(member, pid.ok() ? "ended at once" : std::string(pid.status().message()));
      if (pid.ok()) waitpid(*pid, nullptr, 0);
    }
    if (changed) Record();
  }

  // Until a member ends, one is due, or a signal comes: then false.
  bool Wait() {
    std::vector<pollfd> watched = {{signals_, POLLIN, 0}};
    std::vector<Member*> of;
    double due = -1;
    for (Member& member : members_) {
      if (member.descriptor >= 0) {
        watched.push_back({member.descriptor, POLLIN, 0});
        of.push_back(&member);
      } else if (member.start_at >= 0) {
        due = due < 0 ? member.start_at : std::min(due, member.start_at);
      }
    }
    const int timeout =
        due < 0 ? -1 : static_cast<int>(1 + 1e3 * std::max(0.0, due - clock_.Now()));
    if (poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) return false;
    for (size_t i = 0; i < of.size(); ++i) {
      if (watched[i + 1].revents != 0) OnEnd(*of[i]);
    }
    return watched[0].revents == 0;
  }

  void OnEnd(Member& member) {
    int status = 0;
    const bool child = waitpid(member.id.pid, &status, WNOHANG) == member.id.pid;
    close(std::exchange(member.descriptor, -1));
    Plan(member, child ? HowItEnded(status) : "has ended");
    Record();
  }

  void Plan(Member& member, const std::string& how) {
    const std::string who = absl::StrCat(member.name, " (process ", member.id.pid, ") ", how);
    member.id = {};
    ++member.restarts;
    if (!member.restart) {
      member.start_at = -1;
      return Log(absl::StrCat(who, "; it is not to be started again"));
    }
    const double pause = member.back_off.After(clock_.Now() - member.started_at);
    member.start_at = clock_.Now() + pause;
    Log(absl::StrCat(who, "; starting it again in ", pause, " s"));
  }

  void Record() {
    Processes processes;
    if (const auto self = ProcessWithPid(getpid()); self.has_value()) {
      processes["supervisor"] = {*self, 0};
    }
    for (const Member& member : members_) {
      processes[member.name] = {member.id, member.restarts};
    }
    const absl::Status written = folder_.WriteProcesses(processes, stopping_);
    if (!written.ok()) Log(written.message());
  }

  const ClusterFolder& folder_;
  const common::Clock& clock_;
  std::vector<Member> members_;
  int signals_ = -1;
  bool stopping_ = false;
};

}  // namespace

int RunSupervisor(const std::string& directory, const common::Clock& clock) {
  const ClusterFolder folder(directory);
  const absl::StatusOr<ClusterShape> shape = folder.ReadShape();
  absl::StatusOr<int> lock = folder.Lock();
  for (int i = 0; i < kLockTries && absl::IsAlreadyExists(lock.status()); ++i) {
    poll(nullptr, 0, kLockPauseMs);
    lock = folder.Lock();
  }
  for (const absl::Status& status : {shape.status(), lock.status()}) {
    if (status.ok()) continue;
    Log(status.message());
    return 1;
  }
  return Supervisor(folder, *shape, clock).Run();  // the lock goes with the process
}

}  // namespace strata::client
