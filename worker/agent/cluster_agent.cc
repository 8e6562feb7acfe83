#include "worker/agent/cluster_agent.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "worker/agent/agent_folder.h"
#include "worker/agent/controller_link.h"
#include "worker/agent/data_devices.h"
#include "worker/agent/doorway.h"
#include "worker/agent/held_epoch.h"
#include "worker/agent/logic/epoch_fence.h"
#include "worker/agent/logic/membership.h"
#include "worker/agent/trainer_build.h"
#include "worker/shared/version.h"

namespace strata::worker {
namespace {

constexpr double kTickSeconds = 0.2;
constexpr double kEndSeconds = 5;  // for trainers that were killed, and for the last words
constexpr int kLeastProtocol = 1, kGreatestProtocol = 2;  // ProtocolRange

void Log(const std::string& text) { std::fprintf(stderr, "strata-worker: %s\n", text.c_str()); }

uint64_t DrawIncarnation(const common::Clock& clock) {
  const uint64_t moment = static_cast<uint64_t>(clock.Now() * 1e9);
  const uint64_t wall = static_cast<uint64_t>(common::WallSeconds() * 1e6);
  return common::MixBits(common::MixBits(moment, wall), static_cast<uint64_t>(getpid())) | 1;
}

// An interface of its own makes ranks reachable from there, and from nowhere else.
std::string DataDevices(const ClusterAgentOptions& options) {
  if (!options.data_devices.empty()) return options.data_devices;
  if (std::getenv("UCX_NET_DEVICES") != nullptr) return "";
  if (absl::StartsWith(options.controller, "unix:")) return "lo";
  const absl::StatusOr<std::string> found = InterfaceTo(options.controller);
  if (!found.ok()) {
    Log(absl::StrCat(std::string(found.status().message()),
                     ": its ranks listen on all interfaces (--data-devices)"));
    return "";
  }
  Log(absl::StrCat("its ranks' data connections are on ", *found,
                   *found == "lo" ? ", that is, with ranks of this machine alone" : "",
                   " (--data-devices)"));
  return *found;
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
        membership_(folder_->membership(), options.rejoin),
        away_since_(clock.Now()) {
    environment_.folder = folder_.get();
    environment_.clock = &clock;
    environment_.devices = options.devices;
    environment_.threads_per_device = options.threads_per_device;
    environment_.data_devices = DataDevices(options);
    environment_.say = [this](const v1::AgentMessage& message) { Say(message); };
  }

  int Run() {
    for (const v1::HeldEpochRecord& record : folder_->LoadRecords()) {
      epochs_.push_back(HeldEpoch::Adopt(&environment_, record));
      fence_.Remember(record.prepare().epoch());
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
    while (!leaving_ && !dismissed_ && !Drained()) Turn();
    if (dismissed_) return Leave(1);
    return leaving_ ? HandOver() : End();
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
      if (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) OnSignal();
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

  void OnSignal() {
    if (options_.on_sigterm == OnSigterm::kHandOver || drain_by_ >= 0) {
      leaving_ = true;
      return;
    }
    drain_by_ = clock_.Now() + options_.drain_seconds;
    Log("told to stop: it goes when it holds nothing any more");
    SayLeaving();
  }

  void SayLeaving() {
    v1::AgentMessage message;
    message.mutable_leaving()->set_reason("its agent was told to stop");
    message.mutable_leaving()->set_within_seconds(std::max(0.0, drain_by_ - clock_.Now()));
    Say(message);
  }

  // Told to go once it holds nothing, and it may: or its time is over.
  bool Drained() const { return drain_by_ >= 0 && (!Holds() || clock_.Now() > drain_by_); }

  // Trainers are here, or may be.
  bool Holds() const {
    return std::any_of(epochs_.begin(), epochs_.end(),
                       [](const auto& epoch) { return !epoch->ended(); });
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
    if (orphan_seconds_ <= 0 || now - away_since_ <= orphan_seconds_) return;
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
      if (SameEpoch(held->epoch(), epoch)) return held.get();
    }
    return nullptr;
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
    const absl::Status heard = message.message.has_welcome()
                                   ? TakeWelcome(message.message)
                                   : membership_.CheckWord(message.message);
    if (!heard.ok()) {
      Log(absl::StrCat(heard.message(), ": not heard"));
      return link_->End(session_);
    }
    OnMessage(message.message);
  }

  // Whether the controller is ours; what is to be remembered of it is durable when it is.
  absl::Status TakeWelcome(const v1::ControllerMessage& message) {
    ASSIGN_OR_RETURN(const Membership::Verdict verdict,
                     membership_.Judge(message.welcome(), message.controller_term(), Holds()));
    if (verdict.changed) RETURN_IF_ERROR(folder_->SetMembership(verdict.membership));
    if (verdict.restored) {
      Log(absl::StrCat(
          "the controller's store was restored: ", verdict.membership.store_incarnation(),
          " after ", membership_.kept().store_incarnation()));
      fence_.Forget();
    }
    membership_.Take(verdict.membership);
    return absl::OkStatus();
  }

  void Register(uint64_t session) {
    session_ = session;
    membership_.BeginSession();
    v1::AgentMessage message;
    message.set_incarnation(incarnation_);
    v1::Register& said = *message.mutable_register_();
    said.set_node(options_.node);
    said.set_device("cpu");
    said.set_devices(options_.devices);
    said.mutable_locality()->insert(options_.locality.begin(), options_.locality.end());
    said.set_version(kVersion);
    said.mutable_protocol()->set_least(kLeastProtocol);
    said.mutable_protocol()->set_greatest(kGreatestProtocol);
    said.set_build(build_);
    said.set_cluster(membership_.kept().cluster());
    listed_.clear();
    for (const auto& epoch : epochs_) {
      std::optional<v1::HeldEpoch> held = epoch->Held();
      if (!held.has_value()) continue;
      *said.add_held() = *std::move(held);
      listed_.push_back(epoch->epoch());
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
      case v1::ControllerMessage::kTiming:
        return SetTiming(message.timing().timing());
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
    orphan_seconds_ = welcome.orphan_seconds();
    if (welcome.has_timing()) SetTiming(welcome.timing());
    environment_.connected_since = clock_.Now();
    next_heartbeat_ = 0;
    said_away_ = false;
    Log(absl::StrCat("at the controller's service as ", options_.node, ", term ",
                     membership_.kept().controller_term()));
    const auto names = [](const auto& list, const v1::JobEpoch& epoch) {
      return std::any_of(list.begin(), list.end(),
                         [&](const v1::JobEpoch& each) { return SameEpoch(each, epoch); });
    };
    for (const auto& epoch : epochs_) {
      if (names(welcome.keep(), epoch->epoch())) {
        epoch->OnKept();
      } else if (names(listed_, epoch->epoch())) {
        epoch->Kill("user", "the controller does not want it any more");
      }
      epoch->SayAgain();
    }
    if (drain_by_ >= 0) SayLeaving();
  }

  void SetTiming(const v1::TimingPolicy& timing) {
    if (timing.heartbeat_seconds() > 0) heartbeat_seconds_ = timing.heartbeat_seconds();
    if (timing.lease_seconds() > 0) environment_.lease_seconds = timing.lease_seconds();
    if (timing.has_orphan_seconds()) orphan_seconds_ = timing.orphan_seconds();
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
    fence_.Remember(epoch);
    epochs_.push_back(std::make_unique<HeldEpoch>(&environment_, prepare));
  }

  absl::Status Check(const v1::PrepareEpoch& prepare) const {
    RETURN_IF_ERROR(CheckPrepare(prepare, options_.devices, fence_));
    if (prepare.build().empty() || build_.empty() || prepare.build() == build_) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "the trainer of ", options_.node, " is of build ", build_, ", not ", prepare.build()));
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

  // The next agent of this node will find the trainers.
  int Leave(int status) {
    for (const auto& epoch : epochs_) epoch->LetGo();
    return status;
  }

  int HandOver() {
    Log("told to stop: its trainers go on without it for their lease");
    link_->Flush(kEndSeconds / 5);
    return Leave(0);
  }

  // Of a node that is drained, or had its time to be.
  int End() {
    Log("drained");
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
  std::vector<v1::JobEpoch> listed_;  // held, by Register of this session
  EpochFence fence_;
  Membership membership_;
  const std::string build_ = TrainerBuild();
  double heartbeat_seconds_ = 1;
  double orphan_seconds_ = 0;                  // 0: never
  double next_tick_ = 0, next_heartbeat_ = 0;  // clock times
  double away_since_;                          // clock time
  bool said_away_ = false;
  double drain_by_ = -1;  // clock time; negative: not told to
  bool leaving_ = false;
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
