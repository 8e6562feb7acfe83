// The GPUs of this node, read again and again on a thread of its own: a driver that hangs blocks
// whoever asks it, and that is not to be the agent.
#ifndef STRATA_WORKER_AGENT_MACHINE_GPU_WATCH_H_
#define STRATA_WORKER_AGENT_MACHINE_GPU_WATCH_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "proto/strata/v1/agent.pb.h"
#include "worker/agent/machine/file_work.h"

namespace strata::worker {

// Used by one thread.
class GpuWatch {
 public:
  static constexpr double kReadSeconds = 10;    // between two readings; Xids are heard of at once
  static constexpr double kSilentSeconds = 60;  // then a driver has hung

  // `library`: as dlopen takes it. NotFound: there is no NVIDIA driver. FailedPrecondition: there
  // are no GPUs that an agent can offer, why, and what to do. `clock` is borrowed.
  static absl::StatusOr<std::unique_ptr<GpuWatch>> Open(const std::string& library,
                                                        const common::Clock* clock);

  const std::string& kind() const { return kind_; }  // h100, …: of all of them
  // Of the NVLink fabric that all of them are in; empty: none.
  const std::string& fabric_clique() const { return fabric_clique_; }
  // Whether Xids of all of them are heard of; else errors show in readings alone.
  bool hears_xids() const { return hears_xids_; }
  // All devices as they are known now, with what they are.
  const std::vector<v1::DeviceState>& states() const { return states_; }

  // Whether states() has changed; to be asked several times a second.
  bool Advance();

 private:
  struct Gpus;
  GpuWatch(std::shared_ptr<Gpus> gpus, const common::Clock* clock);
  absl::Status Identify();
  void BeginRound(bool read);
  void ShowSilence();

  const std::shared_ptr<Gpus> gpus_;  // the work's, until it has settled
  const common::Clock* const clock_;
  std::string kind_, fabric_clique_;
  std::vector<v1::DeviceState> states_;
  double round_since_ = 0, next_reading_ = 0;  // clock times
  bool hears_xids_ = false;
  bool silent_ = false;
  FileWork work_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_GPU_WATCH_H_
