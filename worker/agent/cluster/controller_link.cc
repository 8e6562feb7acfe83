#include "worker/agent/cluster/controller_link.h"

#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "proto/strata/v1/agent.grpc.pb.h"
#include "protocol/parts.h"
#include "security/credentials.h"

namespace strata::worker {
namespace {

constexpr size_t kMostEvents = 4096;
constexpr double kPauseGrowth = 1.6;

using Stream = grpc::ClientReaderWriter<v1::AgentMessage, v1::ControllerMessage>;

absl::StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const ControllerLink::Options& options) {
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (options.tls.enabled() && !absl::StartsWith(options.address, "unix:")) {
    ASSIGN_OR_RETURN(credentials,
                     security::MakeChannelCredentials(options.tls, common::WallSeconds()));
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(ControllerLink::kLargestMessageBytes);
  arguments.SetMaxSendMessageSize(ControllerLink::kLargestMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Each try is a connection of its own; how long to pause is decided here. The least pause is also
  // the time that a connection may take to stand.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options.address, credentials, arguments);
}

}  // namespace

class ControllerLink::Impl {
 public:
  explicit Impl(const Options& options)
      : options_(options), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    STRATA_CHECK(wake_ >= 0);
    thread_ = std::thread([this] { Work(); });
  }

  ~Impl() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      closing_ = true;
      if (context_ != nullptr) context_->TryCancel();
    }
    changed_.notify_all();
    thread_.join();
    close(wake_);
  }

  int descriptor() const { return wake_; }

  std::optional<LinkEvent> Next() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (events_.empty()) {
      eventfd_t count = 0;
      eventfd_read(wake_, &count);
      return std::nullopt;
    }
    LinkEvent event = std::move(events_.front());
    events_.pop_front();
    changed_.notify_all();
    return event;
  }

  void Send(uint64_t session, const v1::AgentMessage& message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (session == 0 || session != session_) return;
    if (waiting_.size() >= kMostWaiting) {
      context_->TryCancel();
      return;
    }
    waiting_.push_back(message);
    changed_.notify_all();
  }

  void End(uint64_t session) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (session != 0 && session == session_) context_->TryCancel();
  }

  // A stream that is cancelled may lose what the controller has not read: it ends the session once
  // it has read the end of ours.
  void Finish(double seconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [this] { return session_ == 0; });
  }

 private:
  // Tries, for ever.
  void Work() {
    double pause = options_.first_pause_seconds;
    for (uint64_t number = 1;; ++number) {
      const bool stood = RunSession(number);
      if (stood) pause = options_.first_pause_seconds;
      const double jitter =
          0.5 + common::ToUniform(static_cast<uint32_t>(common::MixBits(options_.seed, number)));
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, std::chrono::duration<double>(pause * jitter),
                        [this] { return closing_ || finishing_; });
      if (closing_ || finishing_) return;
      pause = std::min(pause * kPauseGrowth, options_.longest_pause_seconds);
    }
  }

  // One session, from its beginning to its end; whether the controller has said anything.
  bool RunSession(uint64_t number) {
    const auto channel = MakeChannel(options_);
    if (!channel.ok()) {
      Push(LinkDown{0, std::string(channel.status().message())});
      return false;
    }
    const auto stub = v1::AgentService::NewStub(*channel);
    grpc::ClientContext context;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (closing_ || finishing_) return false;
      context_ = &context;
      waiting_.clear();
      session_ = number;
    }
    const std::unique_ptr<Stream> stream = stub->Session(&context);
    // The stream stands as soon as it can be written to; what is sent before waits for that.
    Push(LinkUp{number});
    std::thread writer([&] { Write(*stream, number); });
    bool heard = false;
    protocol::Joiner<v1::ControllerMessage> joiner;
    absl::Status problem;
    v1::ControllerMessage message;
    while (problem.ok() && stream->Read(&message)) {
      heard = true;
      absl::StatusOr<std::optional<v1::ControllerMessage>> whole = joiner.Add(std::move(message));
      problem = whole.status();
      if (whole.ok() && whole->has_value()) Push(LinkMessage{number, **std::move(whole)});
      message.Clear();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      session_ = 0;
    }
    changed_.notify_all();
    context.TryCancel();  // a write in flight ends too
    writer.join();
    const grpc::Status status = stream->Finish();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      context_ = nullptr;
    }
    const std::string reason =
        !problem.ok() ? std::string(problem.message())
        : status.ok()
            ? "the controller ended the session"
            : absl::StrCat(options_.address, ": ", security::TlsReason(status.error_message()));
    Push(LinkDown{number, reason});
    return heard;
  }

  void Write(Stream& stream, uint64_t number) {
    for (uint64_t sent = 1;; ++sent) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(
          lock, [&] { return closing_ || finishing_ || session_ != number || !waiting_.empty(); });
      if (session_ != number || (closing_ && waiting_.empty())) return;
      if (waiting_.empty()) {
        lock.unlock();
        stream.WritesDone();
        return;
      }
      v1::AgentMessage message = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      if (!WritePieces(stream, std::move(message), sent)) return;
    }
  }

  // False: the stream is at its end, or the message is larger than any may be.
  bool WritePieces(Stream& stream, v1::AgentMessage message, uint64_t sent) {
    const auto pieces = protocol::Cut(std::move(message), sent);
    if (!pieces.ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      context_->TryCancel();
      return false;
    }
    return std::all_of(pieces->begin(), pieces->end(),
                       [&](const v1::AgentMessage& piece) { return stream.Write(piece); });
  }

  // Blocks while the agent's loop is far behind: then the controller's words wait in the transport.
  void Push(LinkEvent event) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || events_.size() < kMostEvents; });
    events_.push_back(std::move(event));
    eventfd_write(wake_, 1);
  }

  const Options options_;
  const int wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<LinkEvent> events_;
  std::deque<v1::AgentMessage> waiting_;
  uint64_t session_ = 0;  // that stands; 0: none
  bool closing_ = false;
  bool finishing_ = false;  // no more will be sent
  grpc::ClientContext* context_ = nullptr;
  std::thread thread_;  // last: it uses all of the above
};

ControllerLink::ControllerLink(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
ControllerLink::~ControllerLink() = default;

int ControllerLink::descriptor() const { return impl_->descriptor(); }
std::optional<LinkEvent> ControllerLink::Next() { return impl_->Next(); }
void ControllerLink::Send(uint64_t session, const v1::AgentMessage& message) {
  impl_->Send(session, message);
}
void ControllerLink::End(uint64_t session) { impl_->End(session); }
void ControllerLink::Finish(double seconds) { impl_->Finish(seconds); }

}  // namespace strata::worker
