#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/processor_time.h"
#include "memory/ssd/io_backend.h"

namespace strata::memory {
namespace {

class ThreadsBackend final : public IoBackend {
 public:
  explicit ThreadsBackend(int depth) {
    for (int i = 0; i < depth; ++i) threads_.emplace_back([this] { Serve(); });
  }
  ~ThreadsBackend() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    asked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Submit(const IoRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    asked_.notify_one();
    return absl::OkStatus();
  }

  absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) override {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [this] { return !completions_.empty(); });
    const size_t count = std::min(done.size(), completions_.size());
    std::copy_n(completions_.begin(), count, done.begin());
    completions_.erase(completions_.begin(), completions_.begin() + static_cast<int64_t>(count));
    return static_cast<int>(count);
  }

  int64_t processor_nanos() const override { return processor_nanos_; }

 private:
  void Serve() {
    std::unique_lock lock(mutex_);
    int64_t counted = 0;
    while (true) {
      asked_.wait(lock, [this] { return stopping_ || !requests_.empty(); });
      if (requests_.empty()) return;
      const IoRequest request = requests_.front();
      requests_.pop_front();
      lock.unlock();
      const IoCompletion completion{request.id, Move(request)};
      const int64_t spent = common::ThreadProcessorNanos();
      processor_nanos_ += spent - counted;
      counted = spent;
      lock.lock();
      completions_.push_back(completion);
      answered_.notify_one();
    }
  }

  static int64_t Move(const IoRequest& request) {
    const int64_t moved =
        request.write
            ? pwrite(request.file, request.data, static_cast<size_t>(request.bytes), request.offset)
            : pread(request.file, request.data, static_cast<size_t>(request.bytes), request.offset);
    return moved < 0 ? -errno : moved;
  }

  std::atomic<int64_t> processor_nanos_ = 0;
  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<IoRequest> requests_;
  std::deque<IoCompletion> completions_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<IoBackend> MakeThreadsBackend(int depth) {
  return std::make_unique<ThreadsBackend>(depth);
}

}  // namespace strata::memory
