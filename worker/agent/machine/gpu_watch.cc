#include "worker/agent/machine/gpu_watch.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "topology/nvml/gpu_health.h"
#include "topology/nvml/nvml.h"

namespace strata::worker {
namespace {

using topology::GpuHealth;
using topology::GpuIdentity;
using topology::GpuReading;
using topology::Nvml;

constexpr double kRoundSeconds = 1;  // in which it waits for Xids

v1::DeviceState Describe(int device, const GpuIdentity& gpu) {
  v1::DeviceState state;
  state.set_device(device);
  state.set_health(v1::DeviceState::HEALTHY);
  state.set_product(gpu.product);
  state.set_uuid(gpu.uuid);
  state.set_pci(gpu.pci);
  if (gpu.capability_major > 0) {
    state.set_compute_capability(absl::StrCat(gpu.capability_major, ".", gpu.capability_minor));
  }
  state.set_memory_bytes(gpu.memory_bytes);
  state.set_nvlinks(gpu.active_nvlinks);
  state.set_fabric_clique(gpu.fabric_clique);
  return state;
}

void SetReading(const GpuReading& reading, v1::DeviceState& state) {
  const auto set = [&state](const auto& value, auto setter, auto clearer) {
    if (value.has_value()) return (state.*setter)(*value);
    (state.*clearer)();
  };
  using State = v1::DeviceState;
  set(reading.utilization, &State::set_utilization, &State::clear_utilization);
  set(reading.memory_used_bytes, &State::set_memory_used_bytes, &State::clear_memory_used_bytes);
  set(reading.temperature_celsius, &State::set_temperature_celsius,
      &State::clear_temperature_celsius);
  set(reading.power_watts, &State::set_power_watts, &State::clear_power_watts);
  set(reading.sm_clock_hertz, &State::set_sm_clock_hertz, &State::clear_sm_clock_hertz);
  set(reading.ecc_corrected, &State::set_ecc_corrected, &State::clear_ecc_corrected);
  set(reading.ecc_uncorrected, &State::set_ecc_uncorrected, &State::clear_ecc_uncorrected);
  set(reading.throttled, &State::set_throttled, &State::clear_throttled);
}

void SetHealth(const GpuHealth& health, v1::DeviceState& state) {
  const GpuHealth::Level level = health.level();
  state.set_health(level == GpuHealth::Level::kHealthy    ? v1::DeviceState::HEALTHY
                   : level == GpuHealth::Level::kDegraded ? v1::DeviceState::DEGRADED
                                                          : v1::DeviceState::UNHEALTHY);
  state.set_reason(health.reason());
  state.mutable_xids()->clear();
  state.mutable_xids()->insert(health.xids().begin(), health.xids().end());
}

}  // namespace

struct GpuWatch::Gpus {
  std::unique_ptr<Nvml> nvml;
  std::vector<GpuHealth> health;
  std::vector<v1::DeviceState> states;
  bool changed = false;

  void Read() {
    for (int i = 0; i < nvml->count(); ++i) {
      const absl::StatusOr<GpuReading> reading = nvml->Read(i);
      health[i].OnReading(reading);
      SetReading(reading.ok() ? *reading : GpuReading(), states[i]);
      SetHealth(health[i], states[i]);
    }
    changed = true;
  }
  void WaitForXids() {
    for (double seconds = kRoundSeconds;; seconds = 0) {
      const std::optional<topology::XidEvent> event = nvml->WaitForXid(seconds);
      if (!event.has_value()) return;
      health[event->device].OnXid(event->xid);
      SetHealth(health[event->device], states[event->device]);
      changed = true;
    }
  }
};

GpuWatch::GpuWatch(std::shared_ptr<Gpus> gpus, const common::Clock* clock)
    : gpus_(std::move(gpus)), clock_(clock) {}

absl::StatusOr<std::unique_ptr<GpuWatch>> GpuWatch::Open(const std::string& library,
                                                         const common::Clock* clock) {
  auto gpus = std::make_shared<Gpus>();
  ASSIGN_OR_RETURN(gpus->nvml, Nvml::Open(library));
  std::unique_ptr<GpuWatch> watch(new GpuWatch(std::move(gpus), clock));
  RETURN_IF_ERROR(watch->Identify());
  return watch;
}

// One that does not answer keeps its place: it is unhealthy, and the others serve.
absl::Status GpuWatch::Identify() {
  const Nvml& nvml = *gpus_->nvml;
  gpus_->health.resize(nvml.count());
  bool alike = true;
  std::optional<GpuIdentity> first;
  std::string silent;
  for (int i = 0; i < nvml.count(); ++i) {
    const absl::StatusOr<GpuIdentity> gpu = nvml.Identify(i);
    gpus_->states.push_back(Describe(i, gpu.ok() ? *gpu : GpuIdentity()));
    if (!gpu.ok()) {
      silent = std::string(gpu.status().message());
      continue;
    }
    RETURN_IF_ERROR(topology::CheckUsable(*gpu, i));
    if (!first.has_value()) first = *gpu;
    if (gpu->kind != first->kind) {
      return absl::FailedPreconditionError(absl::StrCat(
          "GPU ", i, " (", gpu->product, ") is of another kind than the first (", first->product,
          "), and a node has devices of one kind: start an agent for each kind, in a container "
          "that "
          "is given the GPUs of that kind alone"));
    }
    alike = alike && gpu->fabric_clique == first->fabric_clique;
  }
  if (!first.has_value()) {
    return absl::FailedPreconditionError(
        silent.empty() ? "the NVIDIA driver has no GPUs: are they passed into this container?"
                       : absl::StrCat("no GPU answers: ", silent));
  }
  kind_ = first->kind;
  if (alike && silent.empty()) fabric_clique_ = first->fabric_clique;
  hears_xids_ = gpus_->nvml->BeginXids();
  gpus_->Read();
  states_ = gpus_->states;
  next_reading_ = clock_->Now() + kReadSeconds;
  BeginRound(/*read=*/false);
  return absl::OkStatus();
}

void GpuWatch::BeginRound(bool read) {
  round_since_ = clock_->Now();
  gpus_->changed = false;
  work_.Do([gpus = gpus_, read] {
    gpus->WaitForXids();
    if (read) gpus->Read();
  });
}

bool GpuWatch::Advance() {
  const double now = clock_->Now();
  if (!work_.Settle(0)) {
    if (silent_ || now < round_since_ + kSilentSeconds) return false;
    ShowSilence();
    return true;
  }
  const bool changed = gpus_->changed || std::exchange(silent_, false);
  if (changed) states_ = gpus_->states;
  const bool read = now >= next_reading_;
  if (read) next_reading_ = now + kReadSeconds;
  BeginRound(read);
  return changed;
}

void GpuWatch::ShowSilence() {
  silent_ = true;
  for (v1::DeviceState& state : states_) {
    state.set_health(v1::DeviceState::UNHEALTHY);
    state.set_reason(absl::StrCat("its driver has not answered for ", kSilentSeconds, " seconds"));
  }
}

}  // namespace strata::worker
