// One background thread with room for one task: work that goes on beside the training steps,
// bounded by construction.
#ifndef STRATA_CHECKPOINT_ONE_SLOT_WORKER_H_
#define STRATA_CHECKPOINT_ONE_SLOT_WORKER_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/check.h"

namespace strata::checkpoint {

// Used by one owner thread. Destruction waits for the task in flight.
template <typename Result>
class OneSlotWorker {
 public:
  OneSlotWorker() : thread_([this] { Run(); }) {}
  ~OneSlotWorker() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  OneSlotWorker(const OneSlotWorker&) = delete;
  OneSlotWorker& operator=(const OneSlotWorker&) = delete;

  // True from Start until the result has been taken.
  bool busy() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return busy_;
  }
  void Start(std::function<Result()> task) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      STRATA_CHECK(!busy_);
      busy_ = true;
      task_ = std::move(task);
    }
    changed_.notify_all();
  }
  // Takes the result if it is there; never blocks.
  std::optional<Result> Poll() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Take();
  }
  // Blocks until the task is done. Must be busy.
  Result Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    STRATA_CHECK(busy_);
    changed_.wait(lock, [this] { return result_.has_value(); });
    return *Take();
  }

 private:
  std::optional<Result> Take() {
    if (!result_.has_value()) return std::nullopt;
    std::optional<Result> result = std::move(result_);
    result_.reset();
    busy_ = false;
    return result;
  }
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || task_ != nullptr; });
      if (task_ == nullptr) return;
      const std::function<Result()> task = std::exchange(task_, nullptr);
      lock.unlock();
      Result result = task();
      lock.lock();
      result_ = std::move(result);
      changed_.notify_all();
    }
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool busy_ = false;
  bool stop_ = false;
  std::function<Result()> task_;
  std::optional<Result> result_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_ONE_SLOT_WORKER_H_
