#include "worker/agent/logic/agent_core.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "protocol/exit_codes.h"
#include "worker/shared/version.h"

namespace strata::worker {
namespace {

constexpr double kTickSeconds = 0.2;

// As a heartbeat tells it: what it is was told by Register.
v1::DeviceState WithoutIdentity(v1::DeviceState state) {
  state.clear_product();
  state.clear_uuid();
  state.clear_pci();
  state.clear_compute_capability();
  state.clear_memory_bytes();
  state.clear_nvlinks();
  state.clear_fabric_clique();
  return state;
}

// Of a device that does not answer nothing is known.
int64_t LeastMemory(const std::vector<v1::DeviceState>& devices) {
  int64_t least = 0;
  for (const v1::DeviceState& device : devices) {
    const int64_t bytes = device.memory_bytes();
    if (bytes > 0 && (least == 0 || bytes < least)) least = bytes;
  }
  return least;
}

}  // namespace

AgentCore::AgentCore(const Options& options, const v1::AgentMembership& kept, AgentHost* host,
                     const common::Clock* clock)
    : options_(options),
      host_(host),
      clock_(clock),
      membership_(kept, options.rejoin),
      away_since_(clock->Now()) {
  environment_.host = host;
  environment_.clock = clock;
  environment_.boot_id = options.boot_id;
  environment_.trainer_socket = options.trainer_socket;
  environment_.data_devices = options.data_devices;
  environment_.devices = options.devices;
  environment_.threads_per_device = options.threads_per_device;
  environment_.profile = options.profile;
  environment_.say = [this](const v1::AgentMessage& message) { Say(message); };
}

void AgentCore::Adopt(const v1::HeldEpochRecord& record) {
  epochs_.push_back(HeldEpoch::Adopt(&environment_, record));
  fence_.Remember(record.prepare().epoch());
  host_->Log(absl::StrCat("found epoch ", record.prepare().epoch().epoch(), " of ",
                          record.prepare().epoch().job(), " again"));
}

// ---- time

void AgentCore::Advance() {
  for (const auto& epoch : epochs_) epoch->HandleDeadlines();
  const double now = clock_->Now();
  if (now >= next_tick_) {
    next_tick_ = now + kTickSeconds;
    Tick(now);
  }
  Settle(now);
}

double AgentCore::deadline() const {
  double until = next_tick_;
  for (const auto& epoch : epochs_) {
    if (epoch->deadline() >= 0) until = std::min(until, epoch->deadline());
  }
  return until;
}

void AgentCore::Tick(double now) {
  for (const auto& epoch : epochs_) epoch->Tick();
  if (environment_.connected_since < 0) return EndOrphans(now);
  if (now < next_heartbeat_) return;
  next_heartbeat_ = now + heartbeat_seconds_;
  SayHeartbeat(/*with_devices=*/false);
}

void AgentCore::SayHeartbeat(bool with_devices) {
  v1::AgentMessage message;
  v1::Heartbeat& heartbeat = *message.mutable_heartbeat();
  for (const auto& epoch : epochs_) epoch->AddHeartbeats(heartbeat);
  if (with_devices) {
    for (const v1::DeviceState& state : devices_) {
      *heartbeat.add_device_states() = WithoutIdentity(state);
    }
  }
  Say(message);
}

void AgentCore::EndOrphans(double now) {
  if (orphan_seconds_ <= 0 || now - away_since_ <= orphan_seconds_) return;
  for (const auto& epoch : epochs_) {
    epoch->Kill("node_lost",
                absl::StrCat("the agent of ", options_.node, " was without a controller for ",
                             orphan_seconds_, " seconds"));
  }
}

void AgentCore::Settle(double now) {
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

// ---- the end

bool AgentCore::drained() const {
  return drain_by_ >= 0 && (AllEnded() || clock_->Now() > drain_by_);
}

void AgentCore::OnDrain(double seconds) {
  drain_by_ = clock_->Now() + seconds;
  host_->Log("told to stop: it goes when it holds nothing any more");
  SayLeaving();
}

void AgentCore::SayLeaving() {
  v1::AgentMessage message;
  message.mutable_leaving()->set_reason("its agent was told to stop");
  message.mutable_leaving()->set_within_seconds(std::max(0.0, drain_by_ - clock_->Now()));
  Say(message);
}

void AgentCore::SayHandingOver() {
  v1::AgentMessage message;
  message.mutable_handing_over()->set_reason("its agent was told to stop");
  Say(message);
}

void AgentCore::LetGo() {
  for (const auto& epoch : epochs_) epoch->LetGo();
}

int AgentCore::EndAll() {
  ending_ = true;
  for (const auto& epoch : epochs_) {
    if (!epoch->ended()) last_.push_back(epoch->epoch());
    epoch->Kill("node_lost", absl::StrCat("the agent of ", options_.node, " was told to stop"));
  }
  return static_cast<int>(last_.size());
}

bool AgentCore::AllEnded() const {
  return std::all_of(epochs_.begin(), epochs_.end(),
                     [](const auto& epoch) { return epoch->ended(); });
}

void AgentCore::ForgetEnded() {
  for (const v1::JobEpoch& epoch : last_) {
    HeldEpoch* const held = Find(epoch);
    if (held != nullptr && held->ended()) held->Forget();
  }
}

// ---- accelerators

const v1::DeviceState* AgentCore::FindUnhealthy(int device) const {
  for (const v1::DeviceState& state : devices_) {
    if (state.device() == device && state.health() == v1::DeviceState::UNHEALTHY) return &state;
  }
  return nullptr;
}

// The controller hears of the device before it hears of its rank's end, so that no other rank is
// started there.
void AgentCore::OnDevices(std::vector<v1::DeviceState> devices) {
  const std::vector<v1::DeviceState> before = std::exchange(devices_, std::move(devices));
  SayHeartbeat(/*with_devices=*/true);
  for (const v1::DeviceState& state : devices_) {
    const auto earlier = std::find_if(before.begin(), before.end(), [&](const auto& each) {
      return each.device() == state.device();
    });
    const std::string known = earlier == before.end() ? "" : earlier->reason();
    if (state.reason() != known) {
      host_->Log(absl::StrCat("device ", state.device(), ": ",
                              state.reason().empty() ? "is well again" : state.reason()));
    }
    if (state.health() != v1::DeviceState::UNHEALTHY) continue;
    for (const auto& epoch : epochs_) epoch->OnDeviceFailed(state.device(), state.reason());
  }
}

// ---- the session

void AgentCore::Say(v1::AgentMessage message) {
  if (environment_.connected_since < 0) return;
  message.set_incarnation(options_.incarnation);
  host_->Send(session_, message);
}

void AgentCore::OnLinkUp(uint64_t session) {
  session_ = session;
  membership_.BeginSession();
  v1::AgentMessage message;
  message.set_incarnation(options_.incarnation);
  v1::Register& said = *message.mutable_register_();
  said.set_node(options_.node);
  said.set_device(options_.device);
  said.set_devices(options_.devices);
  said.mutable_device_states()->Assign(devices_.begin(), devices_.end());
  said.set_device_memory_bytes(LeastMemory(devices_));
  said.set_host_memory_bytes(options_.host_memory_bytes);
  said.mutable_locality()->insert(options_.locality.begin(), options_.locality.end());
  said.set_version(kVersion);
  *said.mutable_protocol() = options_.protocol;
  said.set_build(options_.build);
  // One that may go over to another cluster, and holds nothing of its own, belongs to none.
  if (!options_.rejoin || !AllEnded()) said.set_cluster(membership_.kept().cluster());
  listed_.clear();
  for (const auto& epoch : epochs_) {
    std::optional<v1::HeldEpoch> held = epoch->Held();
    if (!held.has_value()) continue;
    *said.add_held() = *std::move(held);
    listed_.push_back(epoch->epoch());
  }
  host_->Send(session, message);
}

void AgentCore::OnLinkDown(uint64_t session, const std::string& reason) {
  if (session != session_) return;
  session_ = 0;
  const bool was_there = environment_.connected_since >= 0;
  environment_.connected_since = -1;
  for (const auto& epoch : epochs_) epoch->OnDisconnect();
  if (!was_there && said_away_ == reason) return;
  said_away_ = reason;
  if (was_there) away_since_ = clock_->Now();
  host_->Log(absl::StrCat("without a controller: ", reason));
}

void AgentCore::OnMessage(uint64_t session, const v1::ControllerMessage& message) {
  if (session != session_) return;
  const absl::Status heard =
      message.has_welcome() ? TakeWelcome(message) : membership_.CheckWord(message);
  if (heard.ok()) return Obey(message);
  host_->Log(absl::StrCat(heard.message(), ": not heard"));
  host_->EndSession(session_);
}

// Whether the controller is ours; what is to be remembered of it is durable when it is.
absl::Status AgentCore::TakeWelcome(const v1::ControllerMessage& message) {
  RETURN_IF_ERROR(
      protocol::CommonVersion(message.welcome().protocol(), "the controller", options_.protocol)
          .status());
  ASSIGN_OR_RETURN(const Membership::Verdict verdict,
                   membership_.Judge(message.welcome(), message.controller_term(), !AllEnded()));
  if (verdict.changed) RETURN_IF_ERROR(host_->SetMembership(verdict.membership));
  if (verdict.restored) {
    host_->Log(absl::StrCat(
        "the controller's store was restored: ", verdict.membership.store_incarnation(), " after ",
        membership_.kept().store_incarnation()));
    fence_.Forget();
  }
  membership_.Take(verdict.membership);
  return absl::OkStatus();
}

void AgentCore::Obey(const v1::ControllerMessage& message) {
  switch (message.message_case()) {
    case v1::ControllerMessage::kWelcome:
      return OnWelcome(message.welcome());
    case v1::ControllerMessage::kDismiss:
      host_->Log(absl::StrCat("dismissed: ", message.dismiss().reason()));
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

void AgentCore::OnWelcome(const v1::Welcome& welcome) {
  if (welcome.heartbeat_seconds() > 0) heartbeat_seconds_ = welcome.heartbeat_seconds();
  if (welcome.lease_seconds() > 0) environment_.lease_seconds = welcome.lease_seconds();
  orphan_seconds_ = welcome.orphan_seconds();
  if (welcome.has_timing()) SetTiming(welcome.timing());
  environment_.connected_since = clock_->Now();
  next_heartbeat_ = 0;
  said_away_.clear();
  host_->Log(absl::StrCat("at the controller's service as ", options_.node, ", term ",
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

void AgentCore::SetTiming(const v1::TimingPolicy& timing) {
  if (timing.heartbeat_seconds() > 0) heartbeat_seconds_ = timing.heartbeat_seconds();
  if (timing.lease_seconds() > 0) environment_.lease_seconds = timing.lease_seconds();
  if (timing.has_orphan_seconds()) orphan_seconds_ = timing.orphan_seconds();
  if (timing.SerializeAsString() == environment_.timing.SerializeAsString()) return;
  environment_.timing = timing;
  for (const auto& epoch : epochs_) epoch->OnTiming();
}

// ---- epochs

HeldEpoch* AgentCore::Find(const v1::JobEpoch& epoch) const {
  for (const auto& held : epochs_) {
    if (SameEpoch(held->epoch(), epoch)) return held.get();
  }
  return nullptr;
}

// What is asked of an epoch that is not here any more has no trainers here.
HeldEpoch* AgentCore::FindOrDeny(const v1::JobEpoch& epoch) {
  HeldEpoch* const held = Find(epoch);
  if (held != nullptr) return held;
  v1::AgentMessage message;
  v1::EpochEnded& ended = *message.mutable_ended();
  *ended.mutable_epoch() = epoch;
  ended.mutable_finished()->set_outcome(v1::Finished::FAILED);
  ended.mutable_finished()->set_exit_code(protocol::kExitFailed);
  ended.mutable_finished()->set_message(absl::StrCat("no ranks of it on ", options_.node));
  ended.set_cause("trainer_died");
  ended.set_rank(-1);
  Say(message);
  return nullptr;
}

void AgentCore::OnPrepare(const v1::PrepareEpoch& prepare) {
  const v1::JobEpoch& epoch = prepare.epoch();
  if (HeldEpoch* const held = Find(epoch)) return held->OnPrepare();
  if (ending_) return;  // the controller finds out at once
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

absl::Status AgentCore::Check(const v1::PrepareEpoch& prepare) const {
  RETURN_IF_ERROR(CheckPrepare(prepare, options_.devices, fence_));
  for (const int device : prepare.devices()) {
    if (const v1::DeviceState* const state = FindUnhealthy(device); state != nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("device ", device, " is unhealthy: ", state->reason()));
    }
  }
  if (prepare.build().empty() || options_.build.empty() || prepare.build() == options_.build) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat("the trainer of ", options_.node,
                                                    " is of build ", options_.build, ", not ",
                                                    prepare.build()));
}

// Of two jobs that had the name the process tells which it is.
HeldEpoch* AgentCore::FindTrainers(const v1::TrainerHello& hello, int64_t pid) const {
  for (const auto& held : epochs_) {
    const v1::JobEpoch& epoch = held->epoch();
    const bool named = epoch.job() == hello.job() && epoch.epoch() == hello.epoch();
    if (named && held->Expects(hello.rank(), pid)) return held.get();
  }
  return nullptr;
}

bool AgentCore::Expects(const v1::TrainerHello& hello, int64_t pid) {
  return FindTrainers(hello, pid) != nullptr;
}

void AgentCore::OnAttached(const v1::TrainerHello& hello, int64_t pid) {
  FindTrainers(hello, pid)->OnAttached(hello.rank());
}

}  // namespace strata::worker
