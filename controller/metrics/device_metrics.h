// The series of nodes' accelerators, as their agents tell of them.
#ifndef STRATA_CONTROLLER_METRICS_DEVICE_METRICS_H_
#define STRATA_CONTROLLER_METRICS_DEVICE_METRICS_H_

#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <utility>

#include "proto/strata/v1/agent.pb.h"

namespace strata::controller {

// One thread uses it; scrapes may come from others at any time.
class DeviceMetrics {
 public:
  static constexpr size_t kMostDevices = 2048;  // the first that are told of
  static constexpr int kMostXids = 16;          // kinds of them, of one device
  static constexpr double kKeepSeconds = 120;   // what is older says nothing of a device

  explicit DeviceMetrics(prometheus::Registry& registry);

  // `node` without nodes/; `states` by its agent, at `now`.
  void Tell(const std::string& node,
            const google::protobuf::RepeatedPtrField<v1::DeviceState>& states, double now);
  // Series of devices that nobody tells of any more go.
  void Tick(double now);

 private:
  using Gauges = prometheus::Family<prometheus::Gauge>;
  using Values = std::map<std::pair<Gauges*, prometheus::Labels>, double>;
  struct Device {
    double told_at = 0;
    prometheus::Gauge* info = nullptr;
    std::map<std::pair<Gauges*, prometheus::Labels>, prometheus::Gauge*> gauges;
  };

  Values ValuesOf(const v1::DeviceState& state, const prometheus::Labels& labels) const;
  void Show(const Values& values, Device& device);

  Gauges& info_;
  Gauges& unhealthy_;
  Gauges& degraded_;
  Gauges& utilization_;
  Gauges& memory_used_;
  Gauges& temperature_;
  Gauges& power_;
  Gauges& sm_clock_;
  Gauges& throttled_;
  Gauges& ecc_errors_;
  Gauges& xids_;
  std::map<std::pair<std::string, int>, Device> devices_;  // by node and index
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_METRICS_DEVICE_METRICS_H_
