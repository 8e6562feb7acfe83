// One server stream: first what is read back (a file's records), then what is pushed live, at the
// client's own pace and in bounded memory.
#ifndef STRATA_CONTROLLER_SERVICE_CALLS_STREAM_CALL_H_
#define STRATA_CONTROLLER_SERVICE_CALLS_STREAM_CALL_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/refusal.h"
#include "controller/service/calls/calls.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/files/source.h"
#include "controller/service/streams/subscriber.h"

namespace strata::controller {

// Keeps itself alive until gRPC is done with it. A client that does not read as fast as messages
// come gets ABORTED after what it could take, and comes back from where it was.
template <typename Message>
class StreamCall final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public Subscriber<Message>,
                         public std::enable_shared_from_this<StreamCall<Message>> {
 public:
  using Question = std::function<void(const Core&, const Caller&)>;
  static constexpr size_t kMostQueued = 4096;
  static constexpr size_t kMostBytes = size_t{32} << 20;
  // Of all methods together. One that has ended counts until its client has taken the end, so that
  // clients which never read cannot pile up their last messages.
  static constexpr int kMostStreams = 8192;

  // Refused at once when there are too many, or nobody can be seen behind what the client shows.
  static std::shared_ptr<StreamCall> Make(const CallEnvironment& environment, const char* method,
                                          const grpc::CallbackServerContext& context) {
    std::shared_ptr<StreamCall> call(new StreamCall(environment, method));
    call->self_ = call;
    call->caller_.peer = context.peer();
    environment.authenticator->Authenticate(
        context, [call](absl::StatusOr<Identity> identity) { call->OnIdentity(identity); });
    const int open = environment.open_streams->fetch_add(1);
    if (open >= kMostStreams) {
      call->End(Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                        absl::StrCat(open, " streams are open already")));
    }
    return call;
  }

  // Runs `question` on the reactor's thread, if the caller may do the method to what `request`
  // names, once what it sees is durable; otherwise the stream ends with why not. One at a time.
  template <typename Request>
  void Ask(const Request& request, Question question) {
    std::function<void()> post = [self = this->shared_from_this(), request,
                                  question = std::move(question)] {
      self->Post(std::make_shared<const Request>(request), question);
    };
    {
      const std::lock_guard lock(mutex_);
      if (!identified_) {
        unasked_ = std::move(post);
        return;
      }
    }
    post();
  }

  // At most once: `next` is asked on the pool's threads, as work
  // of `key`, before anything that was pushed is sent; `then` is called after its last message. Its
  // error, or a file that does not answer, ends the stream.
  void Replay(FilePool* pool, const std::string& key, Source<Message> next,
              std::function<void()> then) {
    std::unique_lock lock(mutex_);
    if (finished_) return;
    pool_ = pool;
    key_ = key;
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
    return queue_.empty() && read_.empty() && !busy_ && !reading_;
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
    if (counted_) environment_.calls->CloseStream(caller_.identity.ToString());
    self = std::move(self_);
  }

 private:
  struct Queued {
    std::shared_ptr<const Message> message;
    size_t bytes;
  };

  StreamCall(const CallEnvironment& environment, const char* method)
      : environment_(environment), method_(method), began_(environment.clock->Now()) {}

  void OnIdentity(const absl::StatusOr<Identity>& identity) {
    if (!identity.ok()) {
      AuditLater(environment_, Describe(method_, true, nullptr), caller_, identity.status());
      return End(identity.status());
    }
    std::function<void()> post;
    {
      const std::lock_guard lock(mutex_);
      caller_.identity = *identity;
      identified_ = true;
      post = std::exchange(unasked_, nullptr);
    }
    if (post) post();
  }

  // On the reactor's thread: counts the stream, once, and as a call.
  absl::Status Admit(const Core& core) {
    if (std::exchange(admitted_, true)) return absl::OkStatus();
    if (!caller_.rights.unrestricted()) {
      environment_.restricted->Add(
          [weak = this->weak_from_this()](const absl::Status& status) {
            const auto stream = weak.lock();
            if (stream != nullptr && !status.ok()) stream->End(status);
            return stream != nullptr;
          },
          caller_.identity.end());
    }
    RETURN_IF_ERROR(CheckCallRate(environment_, core, caller_));
    ASSIGN_OR_RETURN(const bool counts, CountStream(environment_, core, caller_));
    const std::lock_guard lock(mutex_);
    counted_ = counts && !finished_;
    if (counts && finished_) environment_.calls->CloseStream(caller_.identity.ToString());
    return absl::OkStatus();
  }

  void Post(std::shared_ptr<const google::protobuf::Message> request, Question question) {
    struct Seen {
      const Core* core = nullptr;
      absl::Status allowed;
      CallPlace place;
    };
    const auto seen = std::make_shared<Seen>();
    absl::StatusOr<CallPlace> place = TakePlace(environment_, method_, *request, caller_);
    if (!place.ok()) {
      AuditLater(environment_, Describe(method_, true, request.get()), caller_, place.status());
      return End(place.status());
    }
    seen->place = *std::move(place);
    Reactor::Input input;
    input.reads_only = true;
    input.apply = [self = this->shared_from_this(), seen, request](Core& core, Effects& effects) {
      const CallEnvironment& environment = self->environment_;
      seen->core = &core;
      seen->allowed =
          Authorise(core, *environment.standing_admins, self->method_, *request, self->caller_);
      if (seen->allowed.ok()) seen->allowed = self->Admit(core);
      Audit(environment, Describe(self->method_, true, request.get()), self->caller_, seen->allowed,
            core, effects);
    };
    input.release = [self = this->shared_from_this(), seen,
                     question = std::move(question)](const absl::Status& durable) {
      if (!durable.ok() || seen->core == nullptr) return self->End(RefusedByReactor(durable));
      if (!seen->allowed.ok()) return self->End(seen->allowed);
      question(*seen->core, self->caller_);
    };
    const absl::Status posted = environment_.reactor->Post(std::move(input));
    if (!posted.ok()) End(RefusedByReactor(posted));
  }

  // Starts whatever is next, unless something is under way.
  void Advance(std::unique_lock<std::mutex>& lock) {
    while (!busy_ && !finished_) {
      if (cancelled_) return Close(absl::CancelledError("the client has gone"));
      if (!read_.empty()) {
        const Message message = std::move(read_.front());
        read_.pop_front();
        Write(message);
      } else if (reading_) {
        return;
      } else if (next_) {
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

  void ReadBack(std::unique_lock<std::mutex>& lock) {
    reading_ = true;
    FilePool::Task task;
    task.run = [self = this->shared_from_this(), next = next_] { self->OnRead(next()); };
    task.give_up = [self = this->shared_from_this()](const absl::Status& why) {
      self->OnRead(why);
    };
    lock.unlock();
    const absl::Status submitted = pool_->Submit(key_, std::move(task));
    if (!submitted.ok()) OnRead(submitted);
    lock.lock();
  }

  void OnRead(absl::StatusOr<Piece<Message>> piece) {
    std::unique_lock lock(mutex_);
    // What comes after it was given up is too late.
    if (!std::exchange(reading_, false) || finished_) return;
    if (piece.ok()) {
      for (Message& message : piece->messages) read_.push_back(std::move(message));
      if (!piece->last) return Advance(lock);
    }
    next_ = nullptr;
    const std::function<void()> then = std::exchange(then_, nullptr);
    if (!piece.ok()) {
      queue_.clear();
      ending_ = piece.status();
    } else if (then) {
      busy_ = true;  // what it pushes waits
      lock.unlock();
      then();
      lock.lock();
      busy_ = false;
    }
    Advance(lock);
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
    read_.clear();
    next_ = nullptr;
    then_ = nullptr;
    unasked_ = nullptr;
    const grpc::Status result = ToGrpc(status);
    environment_.observer->OnCall(method_, CodeName(result.error_code()),
                                  environment_.clock->Now() - began_);
    this->Finish(result);
  }

  const CallEnvironment environment_;
  const char* const method_;
  const double began_;
  std::shared_ptr<StreamCall> self_;
  Caller caller_;             // once identified; its rights are the reactor thread's
  bool admitted_ = false;     // the reactor thread's
  mutable std::mutex mutex_;  // guards what follows
  bool counted_ = false;      // among its caller's streams
  bool identified_ = false;
  std::function<void()> unasked_;  // waits for that
  std::deque<Queued> queue_;
  size_t queued_bytes_ = 0;
  FilePool* pool_ = nullptr;
  std::string key_;
  Source<Message> next_;
  std::function<void()> then_;
  std::deque<Message> read_;  // by next_, not yet sent
  grpc::ByteBuffer bytes_;
  bool busy_ = false;     // a write is under way
  bool reading_ = false;  // so is a read-back
  bool cancelled_ = false;
  bool finished_ = false;
  std::optional<absl::Status> ending_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CALLS_STREAM_CALL_H_
