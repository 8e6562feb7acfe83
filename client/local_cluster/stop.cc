#include "client/local_cluster/stop.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/local_cluster/spawn.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

constexpr char kSupervisor[] = "strata";
constexpr char kPrograms[] = "strata-";  // what the names of all members' programs begin with

// Waits until all are gone or the time is over; returns those that stayed.
std::vector<ProcessId> AwaitEnd(std::vector<ProcessId> processes, double seconds,
                                const std::function<void()>& on_wait, const common::Clock& clock) {
  constexpr double kTick = 0.2;
  const double end = clock.Now() + seconds;
  while (true) {
    processes.erase(std::remove_if(processes.begin(), processes.end(),
                                   [](const ProcessId& p) { return !IsAlive(p); }),
                    processes.end());
    const double left = end - clock.Now();
    if (processes.empty() || left <= 0) return processes;
    on_wait();
    const int fd = OpenProcess(processes.front());
    if (fd < 0) continue;
    pollfd watched = {fd, POLLIN, 0};
    poll(&watched, 1, static_cast<int>(1 + 1e3 * std::min(left, kTick)));
    close(fd);
  }
}

// SIGTERM (with SIGCONT: a stopped process could not act on it), patience, SIGKILL.
std::vector<ProcessId> End(const std::vector<ProcessId>& processes, double patience_seconds,
                           const std::function<void()>& on_wait, const common::Clock& clock) {
  constexpr double kAfterKill = 5;  // a process in an uninterruptible wait takes its time
  for (const ProcessId& process : processes) {
    SendSignal(process, SIGTERM);
    SendSignal(process, SIGCONT);
  }
  const auto left = AwaitEnd(processes, patience_seconds, on_wait, clock);
  for (const ProcessId& process : left) SendSignal(process, SIGKILL);
  return AwaitEnd(left, kAfterKill, on_wait, clock);
}

std::vector<ProcessId> Recorded(const ClusterFolder& folder, bool controller) {
  std::vector<ProcessId> found;
  for (const auto& [name, process] : folder.ReadProcesses()) {
    if (process.id.pid == 0 || name == "supervisor") continue;
    if ((name == "controller") == controller) found.push_back(process.id);
  }
  return found;
}

// Agents are asked: by a signal they would hand over and leave their trainers to their successors.
// Those that stand still, or are of a release that does not know this, end like all others.
void AskAgents(const ClusterFolder& folder, double patience_seconds,
               const std::function<void()>& on_wait, const common::Clock& clock) {
  const absl::StatusOr<ClusterShape> shape = folder.ReadShape();
  if (!shape.ok()) return;
  std::vector<ProcessId> asking;
  for (const auto& [name, process] : folder.ReadProcesses()) {
    if (process.id.pid == 0 || name == "supervisor" || name == "controller") continue;
    SendSignal(process.id, SIGCONT);
    const absl::StatusOr<pid_t> pid =
        SpawnMember({shape->binaries + "/strata-worker", "stop", "--dir", folder.NodeFolder(name),
                     "--timeout", absl::StrCat(patience_seconds)},
                    folder.LogOf(name));
    if (!pid.ok()) continue;
    if (const auto id = ProcessWithPid(*pid); id.has_value()) asking.push_back(*id);
  }
  for (const ProcessId& process : AwaitEnd(asking, patience_seconds, on_wait, clock)) {
    SendSignal(process, SIGKILL);
  }
}

// An `up` holds it until it has a supervisor, another `down` to its end. -1: there is none to hold
// (a folder that cannot be written to), and the processes are to be ended all the same.
absl::StatusOr<int> AwaitChangeLock(const ClusterFolder& folder,
                                    const std::function<void()>& on_wait,
                                    const common::Clock& clock) {
  constexpr double kPatience = 60;
  constexpr int kTickMs = 50;
  const double end = clock.Now() + kPatience;
  while (true) {
    const absl::StatusOr<int> lock = folder.LockChanges();
    if (lock.ok()) return *lock;
    if (!absl::IsAlreadyExists(lock.status())) return -1;
    if (clock.Now() > end) {
      return absl::UnavailableError(
          absl::StrCat(absl::string_view(lock.status().message()), " does not end"));
    }
    on_wait();
    poll(nullptr, 0, kTickMs);
  }
}

void Reap() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
}

}  // namespace

absl::Status StopMembers(const ClusterFolder& folder, const StopPatience& patience,
                         const common::Clock& clock) {
  const auto reap = [] { Reap(); };
  auto stayed = End(Recorded(folder, true), patience.each_seconds, reap, clock);
  AskAgents(folder, patience.each_seconds, reap, clock);
  for (const ProcessId& process :
       End(Recorded(folder, false), patience.each_seconds, reap, clock)) {
    stayed.push_back(process);
  }
  // Trainers, and what a supervisor that was killed had started and not yet recorded.
  constexpr int kRounds = 3;  // they could have started others meanwhile
  std::vector<ProcessId> rest;
  for (int round = 0; round < kRounds; ++round) {
    rest = ProcessesWith(folder.Mark(), kPrograms);
    if (rest.empty()) break;
    rest = End(rest, patience.trainers_seconds, reap, clock);
  }
  stayed.insert(stayed.end(), rest.begin(), rest.end());
  Reap();
  if (stayed.empty()) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat("process ", stayed.front().pid, " of ", folder.path(),
                                         " does not end, not even by SIGKILL"));
}

absl::StatusOr<bool> StopCluster(const ClusterFolder& folder, const StopPatience& patience,
                                 const std::function<void()>& on_wait, const common::Clock& clock) {
  int lock = -1;
  const absl::Cleanup unlock = [&] {
    if (lock >= 0) close(lock);
  };
  if (folder.IsCluster()) {
    ASSIGN_OR_RETURN(lock, AwaitChangeLock(folder, on_wait, clock));
  }
  const Processes recorded = folder.ReadProcesses();
  const std::vector<ProcessId> members = ProcessesWith(folder.Mark(), kPrograms);
  bool ran = !members.empty();
  for (const auto& [name, process] : recorded) ran |= process.id.pid != 0;
  // Also one that has not recorded itself yet.
  std::vector<ProcessId> supervisors = ProcessesWith(folder.Mark(), kSupervisor);
  supervisors.erase(std::remove_if(supervisors.begin(), supervisors.end(),
                                   [&](const ProcessId& process) {
                                     return std::find(members.begin(), members.end(), process) !=
                                            members.end();
                                   }),
                    supervisors.end());
  ran |= !supervisors.empty();
  const auto stayed = End(supervisors, patience.supervisor_seconds, on_wait, clock);
  if (!stayed.empty()) {
    return absl::UnknownError(
        absl::StrCat("the supervisor, process ", stayed.front().pid, ", does not end"));
  }
  RETURN_IF_ERROR(StopMembers(folder, patience, clock));
  if (!recorded.empty()) RETURN_IF_ERROR(folder.WriteProcesses({}));
  return ran;
}

}  // namespace strata::client
