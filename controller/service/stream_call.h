// One server stream: first what is read back (a file's records), then what is pushed live, at the
// client's own pace and in bounded memory.
#ifndef STRATA_CONTROLLER_SERVICE_STREAM_CALL_H_
#define STRATA_CONTROLLER_SERVICE_STREAM_CALL_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"
#include "controller/service/calls.h"
#include "controller/service/subscriber.h"

namespace strata::controller {

// Keeps itself alive until gRPC is done with it. A client that does not read as fast as messages
// come gets ABORTED after what it could take, and comes back from where it was.
template <typename Message>
class StreamCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public Subscriber<Message>,
                         public std::enable_shared_from_this<StreamCall<Message>> {
 public:
  using Source = std::function<std::optional<Message>()>;
  static constexpr size_t kMostQueued = 4096;
  static constexpr size_t kMostBytes = size_t{32} << 20;
  // Of all methods together. One that has ended counts until its client has taken the end, so that
  // clients which never read cannot pile up their last messages.
  static constexpr int kMostStreams = 8192;

  // Refused at once when there are too many.
  static std::shared_ptr<StreamCall> Make(const CallEnvironment& environment, const char* method) {
    std::shared_ptr<StreamCall> call(new StreamCall(environment, method));
    call->self_ = call;
    const int open = environment.open_streams->fetch_add(1);
    if (open >= kMostStreams) {
      call->End(Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                        absl::StrCat(open, " streams are open already")));
    }
    return call;
  }

  // Until Replay nothing is sent, not even the end: whoever is to push or end it may be told of it
  // before what came earlier is at hand.
  void Hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }

  // Before the call's handler returns, at most once: `next` is asked on gRPC's threads, one message
  // at a time, before anything that was pushed is sent; `then` is called after its last one.
  void Replay(Source next, std::function<void()> then) {
    std::unique_lock lock(mutex_);
    held_ = false;
    if (finished_) return;
    next_ = std::move(next);
    then_ = std::move(then);
    Advance(lock);
  }

  bool Push(std::shared_ptr<const Message> message) override {
    std::unique_lock lock(mutex_);
    if (finished_ || ending_.has_value()) return false;
    const size_t bytes = message->ByteSizeLong();
    if (queue_.size() >= kMostQueued || (queued_bytes_ + bytes > kMostBytes && !queue_.empty())) {
      queue_.clear();
      next_ = nullptr;
      ending_ = Refusal(absl::StatusCode::kAborted, "SLOW_READER",
                        "messages came faster than they were read: continue from the last one");
    } else {
      queue_.push_back({std::move(message), bytes});
      queued_bytes_ += bytes;
    }
    Advance(lock);
    return !ending_.has_value();
  }

  bool alive() const override {
    const std::lock_guard lock(mutex_);
    return !finished_ && !ending_.has_value();
  }

  bool idle() const override {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !busy_;
  }

  void End(const absl::Status& status) override {
    std::unique_lock lock(mutex_);
    if (finished_ || ending_.has_value()) return;
    ending_ = status;
    Advance(lock);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mutex_);
    busy_ = false;
    if (!ok) Close(absl::CancelledError("the client has gone"));
    Advance(lock);
  }

  void OnCancel() override {
    std::unique_lock lock(mutex_);
    cancelled_ = true;
    Advance(lock);
  }

  void OnDone() override {
    std::shared_ptr<StreamCall> self;  // the last owner, perhaps: goes after the lock
    const std::lock_guard lock(mutex_);
    environment_.open_streams->fetch_sub(1);
    self = std::move(self_);
  }

 private:
  struct Queued {
    std::shared_ptr<const Message> message;
    size_t bytes;
  };

  StreamCall(const CallEnvironment& environment, const char* method)
      : environment_(environment), method_(method), began_(environment.clock->Now()) {}

  // Starts whatever is next, unless something is under way.
  void Advance(std::unique_lock<std::mutex>& lock) {
    while (!busy_ && !finished_ && !held_) {
      if (cancelled_) return Close(absl::CancelledError("the client has gone"));
      if (next_) {
        ReadBack(lock);
      } else if (!queue_.empty()) {
        const std::shared_ptr<const Message> message = std::move(queue_.front().message);
        queued_bytes_ -= queue_.front().bytes;
        queue_.pop_front();
        Write(*message);
      } else if (ending_.has_value()) {
        return Close(*ending_);
      } else {
        return;
      }
    }
  }

  // Without the lock, because files are read.
  void ReadBack(std::unique_lock<std::mutex>& lock) {
    busy_ = true;
    const Source next = next_;
    lock.unlock();
    const std::optional<Message> message = next();
    std::function<void()> then;
    lock.lock();
    busy_ = false;
    if (message.has_value()) {
      if (!finished_) Write(*message);
      return;
    }
    next_ = nullptr;
    then = std::move(then_);
    then_ = nullptr;
    if (!then) return;
    busy_ = true;  // what it pushes waits
    lock.unlock();
    then();
    lock.lock();
    busy_ = false;
  }

  void Write(const Message& message) {
    busy_ = true;
    bytes_ = Serialize(message);
    this->StartWrite(&bytes_);
  }

  void Close(const absl::Status& status) {
    if (finished_) return;
    finished_ = true;
    queue_.clear();
    next_ = nullptr;
    const grpc::Status result = ToGrpc(status);
    environment_.observer->OnCall(method_, CodeName(result.error_code()),
                                  environment_.clock->Now() - began_);
    this->Finish(result);
  }

  const CallEnvironment environment_;
  const char* const method_;
  const double began_;
  std::shared_ptr<StreamCall> self_;
  mutable std::mutex mutex_;  // guards what follows
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  Source next_;
  std::function<void()> then_;
  grpc::ByteBuffer bytes_;
  bool busy_ = false;  // a write or a read-back is under way
  bool held_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  std::optional<absl::Status> ending_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAM_CALL_H_
