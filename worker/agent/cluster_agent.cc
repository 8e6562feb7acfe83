#include "worker/agent/cluster_agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "worker/agent/agent_folder.h"
#include "worker/agent/controller_link.h"
#include "worker/agent/doorway.h"
#include "worker/agent/held_epoch.h"
#include "worker/shared/version.h"

namespace strata::worker {
namespace {

constexpr double kTickSeconds = 0.2;
constexpr double kOrphanSeconds = 600;  // until a controller says otherwise
constexpr double kEndSeconds = 5;       // for trainers that were killed, and for the last words
constexpr size_t kMostJobs = 10'000;    // whose epochs are remembered

void Log(const std::string& text) { std::fprintf(stderr, "strata-worker: %s\n", text.c_str()); }

uint64_t DrawIncarnation(const common::Clock& clock) {
  const uint64_t moment = static_cast<uint64_t>(clock.Now() * 1e9);
  const uint64_t wall = static_cast<uint64_t>(common::WallSeconds() * 1e6);
  return common::MixBits(common::MixBits(moment, wall), static_cast<uint64_t>(getpid())) | 1;
}

class ClusterAgent {
 public:
  ClusterAgent(const ClusterAgentOptions& options, std::unique_ptr<AgentFolder> folder,
               Descriptor signals, const common::Clock& clock)
      : options_(options),
        folder_(std::move(folder)),
        signals_(std::move(signals)),
        clock_(clock),
        incarnation_(DrawIncarnation(clock)),
        away_since_(clock.Now()) {
    environment_.folder = folder_.get();
    environment_.clock = &clock;
    environment_.devices = options.devices;
    environment_.threads_per_device = options.threads_per_device;
    environment_.say = [this](const v1::AgentMessage& message) { Say(message); };
  }

  int Run() {
    for (const v1::HeldEpochRecord& record : folder_->LoadRecords()) {
      epochs_.push_back(HeldEpoch::Adopt(&environment_, record));
      Remember(record.prepare().epoch());
      Log(absl::StrCat("found epoch ", record.prepare().epoch().epoch(), " of ",
                       record.prepare().epoch().job(), " again"));
    }
    const auto on_hello = [this](const v1::TrainerHello& hello, pid_t pid, Descriptor& socket,
                                 FrameReceiver& receiver) {
      v1::JobEpoch epoch;
      epoch.set_job(hello.job());
      epoch.set_epoch(hello.epoch());
      HeldEpoch* const held = Find(epoch);
      return held != nullptr && held->Attach(hello.rank(), pid, socket, receiver);
    };
    absl::StatusOr<std::unique_ptr<Doorway>> doorway =
        Doorway::Open(folder_->SocketPath(), on_hello, &clock_);
    if (!doorway.ok()) {
      Log(std::string(doorway.status().message()));
      return 1;
    }
    doorway_ = *std::move(doorway);
    ControllerLink::Options link;
    link.address = options_.controller;
    link.seed = incarnation_;
    link_ = std::make_unique<ControllerLink>(link);
    while (!ending_ && !dismissed_) Turn();
    return dismissed_ ? Leave() : End();
  }

 private:
  // One round of the loop.
  void Turn() {
    std::vector<pollfd> waiting = {{signals_.get(), POLLIN, 0}, {link_->descriptor(), POLLIN, 0}};
    std::vector<std::pair<HeldEpoch*, size_t>> places;
    const size_t door = waiting.size();
    doorway_->AddTo(waiting);
    for (const auto& epoch : epochs_) {
      places.emplace_back(epoch.get(), waiting.size());
      epoch->AddTo(waiting);
    }
    double until = next_tick_;
    for (const auto& epoch : epochs_) {
      if (epoch->deadline() >= 0) until = std::min(until, epoch->deadline());
    }
    const double left = std::clamp(until - clock_.Now(), 0.0, kTickSeconds);
    if (poll(waiting.data(), waiting.size(), static_cast<int>(left * 1e3) + 1) < 0) return;
    if (waiting[0].revents != 0) {
      signalfd_siginfo info;
      ending_ |= read(signals_.get(), &info, sizeof(info)) == sizeof(info);
    }
    for (const auto& [epoch, place] : places) epoch->Handle(&waiting[place]);
    doorway_->Handle(&waiting[door]);
    while (std::optional<LinkEvent> event = link_->Next()) OnLink(*event);
    const double now = clock_.Now();
    if (now >= next_tick_) {
      next_tick_ = now + kTickSeconds;
      Tick(now);
    }
    Settle(now);
  }

  void Tick(double now) {
    for (const auto& epoch : epochs_) epoch->Tick();
    if (environment_.connected_since >= 0) {
      if (now < next_heartbeat_) return;
      next_heartbeat_ = now + heartbeat_seconds_;
      v1::AgentMessage message;
      message.mutable_heartbeat();
      for (const auto& epoch : epochs_) epoch->AddHeartbeats(*message.mutable_heartbeat());
      return Say(message);
    }
    if (now - away_since_ <= orphan_seconds_) return;
    for (const auto& epoch : epochs_) {
      epoch->Kill("node_lost",
                  absl::StrCat("the agent of ", options_.node, " was without a controller for ",
                               orphan_seconds_, " seconds"));
    }
  }

  // Epochs that are over make room; those that wait for it begin.
  void Settle(double now) {
    std::erase_if(epochs_, [now](const auto& epoch) {
      if (!epoch->Confirmed(now)) return false;
      epoch->Forget();
      return true;
    });
    for (const auto& epoch : epochs_) {
      if (epoch->begun()) continue;
      const bool free = std::all_of(epochs_.begin(), epochs_.end(), [&](const auto& other) {
        return other == epoch || other->ended() || other->epoch().job() != epoch->epoch().job();
      });
      if (free) epoch->Begin();
    }
  }

  HeldEpoch* Find(const v1::JobEpoch& epoch) {
    for (const auto& held : epochs_) {
      if (held->epoch().job() == epoch.job() && held->epoch().epoch() == epoch.epoch()) {
        return held.get();
      }
    }
    return nullptr;
  }

  void Remember(const v1::JobEpoch& epoch) {
    int64_t& highest = highest_[epoch.job()];
    highest = std::max(highest, epoch.epoch());
    if (highest_.size() > kMostJobs) highest_.erase(highest_.begin());
  }

  void Say(v1::AgentMessage message) {
    if (environment_.connected_since < 0) return;
    message.set_incarnation(incarnation_);
    link_->Send(session_, message);
  }

  void OnLink(const LinkEvent& event) {
    if (const auto* const up = std::get_if<LinkUp>(&event)) return Register(up->session);
    if (const auto* const down = std::get_if<LinkDown>(&event)) return OnDown(*down);
    const LinkMessage& message = std::get<LinkMessage>(event);
    if (message.session != session_) return;
    const int64_t term = message.message.controller_term();
    if (term < folder_->controller_term()) {
      Log(absl::StrCat("a controller of term ", term, " spoke after one of term ",
                       folder_->controller_term(), ": not heard"));
      return link_->End(session_);
    }
    if (term > folder_->controller_term()) {
      if (const absl::Status status = folder_->SetControllerTerm(term); !status.ok()) {
        Log(std::string(status.message()));
        return link_->End(session_);
      }
    }
    OnMessage(message.message);
  }

  void Register(uint64_t session) {
    session_ = session;
    v1::AgentMessage message;
    message.set_incarnation(incarnation_);
    v1::Register& said = *message.mutable_register_();
    said.set_node(options_.node);
    said.set_device("cpu");
    said.set_devices(options_.devices);
    said.mutable_locality()->insert(options_.locality.begin(), options_.locality.end());
    said.set_version(kVersion);
    listed_.clear();
    for (const auto& epoch : epochs_) {
      std::optional<v1::HeldEpoch> held = epoch->Held();
      if (!held.has_value()) continue;
      *said.add_held() = *std::move(held);
      listed_.insert({epoch->epoch().job(), epoch->epoch().epoch()});
    }
    link_->Send(session, message);
  }

  void OnDown(const LinkDown& down) {
    if (down.session != session_) return;
    session_ = 0;
    const bool was_there = environment_.connected_since >= 0;
    environment_.connected_since = -1;
    for (const auto& epoch : epochs_) epoch->OnDisconnect();
    if (!was_there && said_away_) return;
    said_away_ = true;
    if (was_there) away_since_ = clock_.Now();
    Log(absl::StrCat("without a controller: ", down.reason));
  }

  void OnMessage(const v1::ControllerMessage& message) {
    switch (message.message_case()) {
      case v1::ControllerMessage::kWelcome:
        return OnWelcome(message.welcome());
      case v1::ControllerMessage::kDismiss:
        Log(absl::StrCat("dismissed: ", message.dismiss().reason()));
        dismissed_ = true;
        return;
      case v1::ControllerMessage::kPrepare:
        return OnPrepare(message.prepare());
      case v1::ControllerMessage::kStart:
        if (HeldEpoch* const held = FindOrDeny(message.start().epoch())) {
          held->OnStart(message.start());
        }
        return;
      case v1::ControllerMessage::kStop:
        if (HeldEpoch* const held = FindOrDeny(message.stop().epoch())) {
          held->OnStop(message.stop());
        }
        return;
      case v1::ControllerMessage::kStopAfter:
        if (HeldEpoch* const held = Find(message.stop_after().epoch())) {
          held->OnStopAfter(message.stop_after().step());
        }
        return;
      case v1::ControllerMessage::kWriteManifest:
        if (HeldEpoch* const held = Find(message.write_manifest().epoch())) {
          held->OnManifest(message.write_manifest());
        }
        return;
      case v1::ControllerMessage::kCommit:
        if (HeldEpoch* const held = Find(message.commit().epoch())) {
          held->OnAnswer(message.commit());
        }
        return;
      default:  // of a newer controller
        return;
    }
  }

  void OnWelcome(const v1::Welcome& welcome) {
    if (welcome.heartbeat_seconds() > 0) heartbeat_seconds_ = welcome.heartbeat_seconds();
    if (welcome.lease_seconds() > 0) environment_.lease_seconds = welcome.lease_seconds();
    if (welcome.orphan_seconds() > 0) orphan_seconds_ = welcome.orphan_seconds();
    environment_.connected_since = clock_.Now();
    next_heartbeat_ = 0;
    said_away_ = false;
    Log(absl::StrCat("at the controller's service as ", options_.node, ", term ",
                     folder_->controller_term()));
    std::set<std::pair<std::string, int64_t>> keep;
    for (const v1::JobEpoch& epoch : welcome.keep()) keep.insert({epoch.job(), epoch.epoch()});
    for (const auto& epoch : epochs_) {
      const std::pair<std::string, int64_t> key = {epoch->epoch().job(), epoch->epoch().epoch()};
      if (listed_.contains(key) && !keep.contains(key)) {
        epoch->Kill("user", "the controller does not want it any more");
      }
      epoch->SayAgain();
    }
  }

  void OnPrepare(const v1::PrepareEpoch& prepare) {
    const v1::JobEpoch& epoch = prepare.epoch();
    if (HeldEpoch* const held = Find(epoch)) return held->OnPrepare();
    const absl::Status status = Check(prepare);
    if (!status.ok()) {
      v1::AgentMessage message;
      *message.mutable_prepared()->mutable_epoch() = epoch;
      message.mutable_prepared()->set_problem(std::string(status.message()));
      message.mutable_prepared()->set_permanent(absl::IsInvalidArgument(status));
      return Say(message);
    }
    for (const auto& other : epochs_) {
      if (other->epoch().job() == epoch.job()) {
        other->Kill("user", absl::StrCat("epoch ", epoch.epoch(), " takes its place"));
      }
    }
    Remember(epoch);
    epochs_.push_back(std::make_unique<HeldEpoch>(&environment_, prepare));
  }

  absl::Status Check(const v1::PrepareEpoch& prepare) const {
    const v1::JobEpoch& epoch = prepare.epoch();
    if (ShortJobName(epoch.job()).empty() || epoch.epoch() < 1) {
      return absl::InvalidArgumentError(absl::StrCat("'", epoch.job(), "' is no job's name"));
    }
    const auto highest = highest_.find(epoch.job());
    if (highest != highest_.end() && epoch.epoch() <= highest->second) {
      return absl::FailedPreconditionError(
          absl::StrCat("epoch ", epoch.epoch(), " comes after epoch ", highest->second));
    }
    if (prepare.directory().empty() || prepare.directory()[0] != '/') {
      return absl::InvalidArgumentError(
          absl::StrCat("directory: '", prepare.directory(), "' is no absolute path"));
    }
    const int own = prepare.own_size();
    if (own < 1 || own > options_.devices || prepare.ranks() < own) {
      return absl::InvalidArgumentError(
          absl::StrCat(own, " of ", prepare.ranks(), " ranks for ", options_.devices, " devices"));
    }
    std::set<int> ranks;
    for (const int rank : prepare.own()) {
      if (rank < 0 || rank >= prepare.ranks() || !ranks.insert(rank).second) {
        return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", prepare.ranks()));
      }
    }
    return absl::OkStatus();
  }

  // What is asked of an epoch that is not here any more has no trainers here.
  HeldEpoch* FindOrDeny(const v1::JobEpoch& epoch) {
    HeldEpoch* const held = Find(epoch);
    if (held != nullptr) return held;
    v1::AgentMessage message;
    v1::EpochEnded& ended = *message.mutable_ended();
    *ended.mutable_epoch() = epoch;
    ended.mutable_finished()->set_outcome(v1::Finished::FAILED);
    ended.mutable_finished()->set_exit_code(1);
    ended.mutable_finished()->set_message(absl::StrCat("no ranks of it on ", options_.node));
    ended.set_cause("trainer_died");
    ended.set_rank(-1);
    Say(message);
    return nullptr;
  }

  // The controller has another agent for this node, which will find the trainers.
  int Leave() {
    for (const auto& epoch : epochs_) epoch->LetGo();
    return 1;
  }

  int End() {
    Log("told to stop");
    for (const auto& epoch : epochs_) {
      epoch->Kill("node_lost", absl::StrCat("the agent of ", options_.node, " was told to stop"));
    }
    const double by = clock_.Now() + kEndSeconds;
    const auto over = [this] {
      return std::all_of(epochs_.begin(), epochs_.end(),
                         [](const auto& epoch) { return epoch->ended(); });
    };
    while (!over() && clock_.Now() < by) Turn();
    for (const auto& epoch : epochs_) {
      if (epoch->ended()) epoch->Forget();
    }
    link_->Flush(kEndSeconds / 5);
    return over() ? 0 : 1;
  }

  const ClusterAgentOptions options_;
  const std::unique_ptr<AgentFolder> folder_;
  const Descriptor signals_;
  const common::Clock& clock_;
  const uint64_t incarnation_;
  EpochEnvironment environment_;
  std::vector<std::unique_ptr<HeldEpoch>> epochs_;
  std::unique_ptr<Doorway> doorway_;
  std::unique_ptr<ControllerLink> link_;
  uint64_t session_ = 0;
  std::set<std::pair<std::string, int64_t>> listed_;  // held, by Register of this session
  std::map<std::string, int64_t> highest_;            // epoch seen, by job
  double heartbeat_seconds_ = 1;
  double orphan_seconds_ = kOrphanSeconds;
  double next_tick_ = 0, next_heartbeat_ = 0;  // clock times
  double away_since_;                          // clock time
  bool said_away_ = false;
  bool ending_ = false;
  bool dismissed_ = false;
};

absl::StatusOr<Descriptor> TakeSignals() {
  signal(SIGPIPE, SIG_IGN);
  sigset_t taken;
  sigemptyset(&taken);
  sigaddset(&taken, SIGINT);
  sigaddset(&taken, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &taken, nullptr);
  Descriptor signals(signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) return absl::InternalError(absl::StrCat("signalfd: ", strerror(errno)));
  return signals;
}

}  // namespace

int RunClusterAgent(const ClusterAgentOptions& options, const common::Clock& clock) {
  absl::StatusOr<Descriptor> signals = TakeSignals();
  absl::StatusOr<std::unique_ptr<AgentFolder>> folder = AgentFolder::Open(options.directory);
  for (const absl::Status& status : {signals.status(), folder.status()}) {
    if (status.ok()) continue;
    Log(std::string(status.message()));
    return 1;
  }
  return ClusterAgent(options, *std::move(folder), *std::move(signals), clock).Run();
}

}  // namespace strata::worker
