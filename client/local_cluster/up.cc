#include "client/local_cluster/up.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/local_cluster/ports.h"
#include "client/local_cluster/spawn.h"
#include "client/local_cluster/stop.h"
#include "client/machine.h"
#include "client/text_file.h"
#include "common/digest.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

constexpr int kMostRestarts = 5;  // of one process before the cluster was ready: it never will be
constexpr int kTailLines = 5;
constexpr int kTickMs = 50;
constexpr int kStartTickMs = 10;

bool IsRunning(const Processes& processes, const std::string& name) {
  const auto found = processes.find(name);
  return found != processes.end() && found->second.id.pid != 0;
}

bool HasTopology(const ClusterFolder& folder, const ClusterShape& shape,
                 const LocalTopology& topology) {
  if (!shape.has_topology) return false;
  const auto text = ReadTextFile(folder.TopologyFile(), topology.text.size(), "topology file");
  return text.ok() && *text == topology.text;
}

// What of a running cluster contradicts the options; empty when nothing does.
std::string Contradiction(const UpOptions& options, const ClusterFolder& folder,
                          const ClusterShape& shape) {
  const int agents = static_cast<int>(shape.nodes.size());
  if (options.agents.has_value() && *options.agents != agents) {
    return absl::StrCat("it has ", agents, " agents, not ", *options.agents);
  }
  if (options.topology.has_value() && !HasTopology(folder, shape, *options.topology)) {
    return absl::StrCat("its topology is not that of ", options.topology->file);
  }
  if (options.listen.has_value() && options.listen->ToString() != shape.listen.ToString()) {
    return absl::StrCat("it listens on ", shape.listen.ToString());
  }
  if (!options.no_restart.empty() && options.no_restart != shape.no_restart) {
    return "--no-restart differs";
  }
  return "";
}

// There is no TLS: only this machine may connect, unless the owner insists (as the controller
// itself would say).
absl::Status CheckReach(const ServerAddress& listen, bool insecure) {
  if (insecure || listen.host.empty() || listen.is_loopback()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--listen ", listen.ToString(),
                   ": everybody who reaches this address could run jobs (connections are neither "
                   "encrypted nor authenticated) — listen on 127.0.0.1, or add --insecure-listen"));
}

class Up {
 public:
  Up(const UpOptions& options, const UpHooks& hooks, const common::Clock& clock)
      : options_(options), hooks_(hooks), clock_(clock), folder_(options.directory) {}

  absl::StatusOr<UpResult> Run() {
    if (options_.listen.has_value()) {
      RETURN_IF_ERROR(CheckReach(*options_.listen, options_.insecure_listen));
    }
    while (true) {
      const absl::Status up = Once();
      if (up.ok()) return result_;
      if (!absl::IsAborted(up)) return up;
      result_ = {};  // what was adopted is being ended: once more, after that
    }
  }

 private:
  // Aborted: the cluster's supervisor ends or has ended, and it was not this one's.
  absl::Status Once() {
    int lock = -1;
    const absl::Cleanup unlock = [&] { Unlock(lock); };
    RETURN_IF_ERROR(AwaitTurn(lock));
    const absl::StatusOr<ClusterShape> before = folder_.ReadShape();
    if (!before.ok() && !absl::IsNotFound(before.status())) return before.status();
    if (before.ok() && folder_.HasSupervisor()) {
      RETURN_IF_ERROR(CheckSame(*before));
      result_.adopted = true;
      result_.shape = *before;
      Unlock(lock);
      const absl::Status ready = AwaitReady();
      if (ready.ok()) hooks_.say(absl::StrCat("a cluster runs in ", folder_.path(), " already"));
      return ready;
    }
    if (!before.ok()) RETURN_IF_ERROR(EndStrays());
    const Processes left = before.ok() ? folder_.ReadProcesses() : Processes();
    RETURN_IF_ERROR(Shape(before, left));
    RETURN_IF_ERROR(folder_.Make(result_.shape.nodes));
    RETURN_IF_ERROR(TakeTopology(before));
    RETURN_IF_ERROR(folder_.WriteShape(result_.shape));
    const absl::Status started = Start();
    Unlock(lock);
    const absl::Status ready = started.ok() ? AwaitReady() : started;
    if (ready.ok() || absl::IsAborted(ready)) return ready;
    return EndStarted(ready);
  }

  static void Unlock(int& lock) {
    if (lock >= 0) close(std::exchange(lock, -1));
  }

  // Until nobody else starts or ends the cluster: then `lock` keeps others from it.
  absl::Status AwaitTurn(int& lock) {
    std::error_code error;
    std::filesystem::create_directories(folder_.path(), error);
    if (error) return folder_.Make({});  // says why
    const double end = clock_.Now() + options_.ready_seconds;
    while (true) {
      const absl::StatusOr<int> mine = folder_.LockChanges();
      if (!mine.ok() && !absl::IsAlreadyExists(mine.status())) return mine.status();
      std::string missing = "the end of the supervisor, which was asked to stop";
      if (mine.ok()) {
        lock = *mine;
        if (!folder_.IsStopping()) return absl::OkStatus();
        Unlock(lock);
      } else {
        missing = absl::StrCat("the end of ", absl::string_view(mine.status().message()));
      }
      if (!hooks_.go_on()) return absl::CancelledError("interrupted");
      if (clock_.Now() > end) {
        return absl::UnavailableError(absl::StrCat("gave up waiting for ", missing, " after ",
                                                   static_cast<int>(options_.ready_seconds), " s"));
      }
      hooks_.waiting(missing);
      poll(nullptr, 0, kTickMs);
    }
  }

  // Why it is not ready, once nothing of what was started is left.
  absl::Status EndStarted(const absl::Status& why) {
    hooks_.waiting("ending what was started");
    const auto stopped = StopCluster(
        folder_, StopPatience(), [] {}, clock_);
    if (supervisor_ > 0) waitpid(supervisor_, nullptr, WNOHANG);
    if (stopped.ok()) return why;
    return absl::Status(why.code(), absl::StrCat(why.message(), "; ", stopped.status().message()));
  }

  absl::Status CheckSame(const ClusterShape& shape) const {
    const std::string contradiction = Contradiction(options_, folder_, shape);
    if (contradiction.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat("a cluster runs in ", folder_.path(), ", but ", contradiction,
                     " — strata down --dir ", folder_.path(), " first, or choose another --dir"));
  }

  // Processes of a cluster whose folder was removed under them: nothing can be adopted.
  absl::Status EndStrays() {
    const absl::StatusOr<bool> ran = StopCluster(
        folder_, StopPatience(), [&] { hooks_.waiting("the end of an earlier cluster"); }, clock_);
    if (!ran.ok()) return ran.status();
    if (*ran) {
      hooks_.say(absl::StrCat("ended the processes of an earlier cluster whose folder ",
                              folder_.path(), " was removed"));
    }
    return absl::OkStatus();
  }

  // Decides which nodes there are and where the controller listens.
  absl::Status Shape(const absl::StatusOr<ClusterShape>& before, const Processes& left) {
    const bool any_left = std::any_of(left.begin(), left.end(),
                                      [](const auto& entry) { return entry.second.id.pid != 0; });
    if (any_left) {
      // They were started with the old shape, so it stays.
      RETURN_IF_ERROR(CheckSame(*before));
      result_.shape = *before;
      hooks_.say("the supervisor is gone, a new one takes over the processes that still run");
      if (!IsRunning(left, "controller")) return CheckPortFree(before->listen);
      return absl::OkStatus();
    }
    if (const std::string original = folder_.RunningOriginal(); !original.empty()) {
      hooks_.say(absl::StrCat(folder_.path(), " is a copy of ", original,
                              ", whose cluster runs: this is another cluster, that one stays"));
    }
    ClusterShape& shape = result_.shape;
    if (before.ok()) shape = *before;
    RETURN_IF_ERROR(ChooseNodes());
    shape.no_restart = options_.no_restart;
    shape.insecure_listen = options_.insecure_listen;
    shape.binaries = options_.binaries;
    int64_t devices = 0;
    for (const ClusterNode& node : shape.nodes) devices += node.devices;
    shape.threads_per_agent = static_cast<int>(ThreadsPerRank(devices));
    for (const std::string& name : shape.no_restart) {
      const bool known = std::any_of(shape.nodes.begin(), shape.nodes.end(),
                                     [&](const ClusterNode& node) { return node.name == name; });
      if (!known) {
        return absl::InvalidArgumentError(absl::StrCat("--no-restart ", name, ": no such node (",
                                                       shape.nodes.front().name, " to ",
                                                       shape.nodes.back().name, ")"));
      }
    }
    const ServerAddress& listen = options_.listen.has_value() ? *options_.listen : shape.listen;
    RETURN_IF_ERROR(CheckReach(listen, shape.insecure_listen));
    return ChooseAddresses(before.ok());
  }

  // Those of the options' topology, or as before where nothing else is asked for.
  absl::Status ChooseNodes() {
    ClusterShape& shape = result_.shape;
    if (options_.topology.has_value()) {
      shape.nodes = options_.topology->nodes;
      shape.has_topology = true;
    } else if (!shape.has_topology && options_.agents.has_value()) {
      shape.nodes = PlainNodes(*options_.agents);
    }
    if (shape.nodes.empty()) shape.nodes = PlainNodes(1);
    if (!options_.agents.has_value() || *options_.agents == static_cast<int>(shape.nodes.size())) {
      return absl::OkStatus();
    }
    const std::string& file =
        options_.topology.has_value() ? options_.topology->file : folder_.TopologyFile();
    return absl::InvalidArgumentError(
        absl::StrCat("--agents ", *options_.agents, ": ", file, " has ", shape.nodes.size(),
                     shape.nodes.size() == 1 ? " node" : " nodes",
                     " — leave --agents out, or name another --topology"));
  }

  // The cluster's own copy of the map: it stays when the file goes.
  absl::Status TakeTopology(const absl::StatusOr<ClusterShape>& before) {
    if (!options_.topology.has_value()) return absl::OkStatus();
    const LocalTopology& topology = *options_.topology;
    if (!topology.notice.empty()) hooks_.say(topology.notice);
    if (before.ok() && HasTopology(folder_, *before, topology)) return absl::OkStatus();
    RETURN_IF_ERROR(folder_.WriteTopology(topology.text));
    if (before.ok()) {
      hooks_.say(absl::StrCat("the cluster's topology is now that of ", topology.file, " (",
                              before->has_topology ? "it has changed" : "it had none", ")"));
    }
    return absl::OkStatus();
  }

  absl::Status ChooseAddresses(bool had_some) {
    ClusterShape& shape = result_.shape;
    // The first 64 bits of the folder's digest: the same ports for the same folder.
    const uint64_t seed = std::strtoull(
        common::DigestOf(absl::string_view(folder_.path())).substr(0, 16).c_str(), nullptr, 16);
    if (options_.listen.has_value()) {
      shape.listen = *options_.listen;
      shape.own_socket = false;
      RETURN_IF_ERROR(CheckPortFree(shape.listen));
    } else if (!had_some || shape.own_socket) {
      // Not as before: the folder may be a copy, or have another name.
      shape.own_socket = true;
      ASSIGN_OR_RETURN(const std::string path, folder_.SocketPath());
      shape.listen = {"", 0, path};
    } else if (!CheckPortFree(shape.listen).ok()) {
      const std::string old = shape.listen.ToString();
      ASSIGN_OR_RETURN(shape.listen, ChoosePort(shape.listen.host, seed, {}));
      hooks_.say(
          absl::StrCat(old, " is in use, so the controller listens on ", shape.listen.ToString()));
    }
    const bool keep =
        had_some && shape.metrics.port != shape.listen.port && CheckPortFree(shape.metrics).ok();
    if (!keep) {
      const std::string old = had_some ? shape.metrics.ToString() : "";
      ASSIGN_OR_RETURN(shape.metrics, ChoosePort("127.0.0.1", seed + 1, {shape.listen.port}));
      if (had_some) {
        hooks_.say(absl::StrCat(old, " is in use, so the metrics are on http://",
                                shape.metrics.ToString(), "/metrics"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status Start() {
    const absl::StatusOr<pid_t> pid =
        SpawnDetached(options_.program, {"strata", "supervise", "--dir", folder_.path()},
                      folder_.path(), folder_.Mark(), folder_.LogOf("supervisor"));
    if (!pid.ok()) return pid.status();
    supervisor_ = *pid;
    // StopCluster finds it, whatever happens before it has recorded itself.
    Processes processes = folder_.ReadProcesses();
    if (const auto id = ProcessWithPid(supervisor_); id.has_value()) {
      processes["supervisor"] = {*id, 0};
      result_.processes = processes;
    }
    // It has the folder's lock before the others have their turn.
    while (!folder_.HasSupervisor() && ProcessWithPid(supervisor_).has_value()) {
      if (!hooks_.go_on()) return absl::CancelledError("interrupted");
      hooks_.waiting("the supervisor");
      poll(nullptr, 0, kStartTickMs);
    }
    return absl::OkStatus();
  }

  // Why it never will be ready; OK while it may.
  absl::Status CheckHopeful() {
    if (supervisor_ > 0 && waitpid(supervisor_, nullptr, WNOHANG) == supervisor_) {
      supervisor_ = 0;
      if (folder_.HasSupervisor()) return absl::AbortedError("another one is faster");
      return absl::UnknownError(absl::StrCat("the supervisor has ended:\n",
                                             TailOf(folder_.LogOf("supervisor"), kTailLines)));
    }
    for (const auto& [name, process] : folder_.ReadProcesses()) {
      if (process.restarts < kMostRestarts || result_.adopted) continue;
      return absl::UnknownError(absl::StrCat(name, " does not stay alive, see ",
                                             folder_.LogOf(name), ":\n",
                                             TailOf(folder_.LogOf(name), kTailLines)));
    }
    return absl::OkStatus();
  }

  absl::Status AwaitReady() {
    const double end = clock_.Now() + options_.ready_seconds;
    while (true) {
      const absl::Status ready = hooks_.probe(result_.shape);
      const Processes processes = folder_.ReadProcesses();
      const bool stays = !folder_.IsStopping() && (supervisor_ > 0 || folder_.HasSupervisor());
      if (stays && ready.ok() && IsRunning(processes, "controller") &&
          IsRunning(processes, "supervisor")) {
        result_.processes = processes;
        return absl::OkStatus();
      }
      if (!stays && result_.adopted) return absl::AbortedError("it is being ended");
      RETURN_IF_ERROR(CheckHopeful());
      if (!hooks_.go_on()) return absl::CancelledError("interrupted");
      const std::string missing(ready.ok() ? "the supervisor" : ready.message());
      if (clock_.Now() > end) {
        return absl::UnavailableError(
            absl::StrCat("not ready after ", static_cast<int>(options_.ready_seconds),
                         " s: ", missing, "\n", TailOf(folder_.LogOf("supervisor"), kTailLines)));
      }
      hooks_.waiting(missing);
      poll(nullptr, 0, kTickMs);
    }
  }

  const UpOptions& options_;
  const UpHooks& hooks_;
  const common::Clock& clock_;
  ClusterFolder folder_;
  UpResult result_;
  pid_t supervisor_ = 0;
};

}  // namespace

absl::StatusOr<UpResult> BringUp(const UpOptions& options, const UpHooks& hooks,
                                 const common::Clock& clock) {
  return Up(options, hooks, clock).Run();
}

}  // namespace strata::client
