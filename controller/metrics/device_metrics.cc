#include "controller/metrics/device_metrics.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

prometheus::Family<prometheus::Gauge>& OfDevices(prometheus::Registry& registry, const char* name,
                                                 const char* help) {
  return prometheus::BuildGauge()
      .Name(absl::StrCat("strata_device_", name))
      .Help(help)
      .Register(registry);
}

}  // namespace

DeviceMetrics::DeviceMetrics(prometheus::Registry& registry)
    : info_(OfDevices(registry, "info", "1, with what the accelerator is in the labels.")),
      unhealthy_(OfDevices(registry, "unhealthy",
                           "1 while the accelerator takes no new ranks: its node says why.")),
      degraded_(OfDevices(registry, "degraded",
                          "1 while the accelerator takes ranks and somebody should look at it.")),
      utilization_(OfDevices(registry, "utilization_ratio",
                             "Time in which a kernel ran, over the driver's last sample.")),
      memory_used_(OfDevices(registry, "memory_used_bytes", "Memory in use, by whomever.")),
      temperature_(OfDevices(registry, "temperature_celsius", "Of the chip.")),
      power_(OfDevices(registry, "power_watts", "Of the board.")),
      sm_clock_(OfDevices(registry, "sm_clock_hertz", "Clock of its multiprocessors.")),
      throttled_(OfDevices(registry, "throttled",
                           "1 while heat or the power supply keeps its clocks low.")),
      ecc_errors_(
          OfDevices(registry, "ecc_errors", "Memory errors since its driver was loaded, by kind.")),
      xids_(OfDevices(registry, "xids",
                      "Errors that its driver reported since the agent began, by "
                      "NVIDIA's number.")) {}

DeviceMetrics::Values DeviceMetrics::ValuesOf(const v1::DeviceState& state,
                                              const prometheus::Labels& labels) const {
  Values values;
  const auto add = [&](Gauges& family, double value) {
    if (std::isfinite(value)) values[{&family, labels}] = value;
  };
  const auto add_with = [&](Gauges& family, const char* label, std::string text, double value) {
    prometheus::Labels more = labels;
    more[label] = std::move(text);
    values[{&family, std::move(more)}] = value;
  };
  add(unhealthy_, state.health() == v1::DeviceState::UNHEALTHY ? 1 : 0);
  add(degraded_, state.health() == v1::DeviceState::DEGRADED ? 1 : 0);
  if (state.has_utilization()) add(utilization_, state.utilization());
  if (state.has_memory_used_bytes()) {
    add(memory_used_, static_cast<double>(state.memory_used_bytes()));
  }
  if (state.has_temperature_celsius()) add(temperature_, state.temperature_celsius());
  if (state.has_power_watts()) add(power_, state.power_watts());
  if (state.has_sm_clock_hertz()) add(sm_clock_, state.sm_clock_hertz());
  if (state.has_throttled()) add(throttled_, state.throttled() ? 1 : 0);
  if (state.has_ecc_corrected()) {
    add_with(ecc_errors_, "kind", "corrected", static_cast<double>(state.ecc_corrected()));
  }
  if (state.has_ecc_uncorrected()) {
    add_with(ecc_errors_, "kind", "uncorrected", static_cast<double>(state.ecc_uncorrected()));
  }
  int kinds = 0;
  for (const auto& [xid, count] :
       std::map<int32_t, int64_t>(state.xids().begin(), state.xids().end())) {
    if (++kinds > kMostXids) break;
    add_with(xids_, "xid", absl::StrCat(xid), static_cast<double>(count));
  }
  return values;
}

// What is not told any more goes: an old reading looks like a new one.
void DeviceMetrics::Show(const Values& values, Device& device) {
  std::erase_if(device.gauges, [&](const auto& entry) {
    if (values.contains(entry.first)) return false;
    entry.first.first->Remove(entry.second);
    return true;
  });
  for (const auto& [key, value] : values) {
    prometheus::Gauge*& gauge = device.gauges[key];
    if (gauge == nullptr) gauge = &key.first->Add(key.second);
    gauge->Set(value);
  }
}

void DeviceMetrics::Tell(const std::string& node,
                         const google::protobuf::RepeatedPtrField<v1::DeviceState>& states,
                         double now) {
  for (const v1::DeviceState& state : states) {
    const std::pair<std::string, int> key = {node, state.device()};
    if (devices_.size() >= kMostDevices && !devices_.contains(key)) continue;
    Device& device = devices_[key];
    device.told_at = now;
    const prometheus::Labels labels = {{"node", node}, {"device", absl::StrCat(state.device())}};
    Show(ValuesOf(state, labels), device);
    if (state.product().empty()) continue;  // in heartbeats
    if (device.info != nullptr) info_.Remove(device.info);
    prometheus::Labels identity = labels;
    identity["product"] = state.product();
    identity["uuid"] = state.uuid();
    device.info = &info_.Add(identity);
    device.info->Set(1);
  }
}

void DeviceMetrics::Tick(double now) {
  for (auto at = devices_.begin(); at != devices_.end();) {
    Device& device = at->second;
    if (now < device.told_at + kKeepSeconds) {
      ++at;
      continue;
    }
    Show({}, device);
    if (device.info != nullptr) info_.Remove(device.info);
    at = devices_.erase(at);
  }
}

}  // namespace strata::controller
