#ifndef STRATA_WORKER_ENGINE_ONE_AT_A_TIME_H_
#define STRATA_WORKER_ENGINE_ONE_AT_A_TIME_H_

#include <mutex>
#include <string>

#include "worker/engine/host_ops.h"

namespace strata::worker {

// Loads on the compute and host streams may come at once; whoever answers sees one at a time.
class OneAtATime final : public HostOps {
 public:
  explicit OneAtATime(HostOps* host) : host_(host) {}
  absl::Status LoadBatch(const BatchRows& rows) override {
    const std::lock_guard lock(mutex_);
    return host_->LoadBatch(rows);
  }
  absl::Status LoadScalars(double* scalars) override {
    const std::lock_guard lock(mutex_);
    return host_->LoadScalars(scalars);
  }
  absl::Status Signal(program::Purpose purpose, const std::string& label) override {
    return host_->Signal(purpose, label);
  }

 private:
  HostOps* const host_;
  std::mutex mutex_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_ONE_AT_A_TIME_H_
