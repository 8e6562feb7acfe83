// A server stream read with a time limit. Internal to api/.
#ifndef STRATA_CLIENT_API_GRPC_STREAM_H_
#define STRATA_CLIENT_API_GRPC_STREAM_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "client/api/api_client.h"

namespace strata::client {

inline gpr_timespec SecondsFromNow(double seconds) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_micros(static_cast<int64_t>(seconds * 1e6), GPR_TIMESPAN));
}

// The call runs on a completion queue that its owner empties in Next: start, reads, and the final
// status, exactly one operation at a time.
template <typename Message>
class GrpcStream final : public Stream<Message> {
 public:
  using Event = typename Stream<Message>::Event;
  using Reader = grpc::ClientAsyncReader<Message>;
  using Prepare =
      std::function<std::unique_ptr<Reader>(grpc::ClientContext*, grpc::CompletionQueue*)>;
  using Translate = std::function<absl::Status(const grpc::Status&)>;

  GrpcStream(const Prepare& prepare, Translate translate) : translate_(std::move(translate)) {
    reader_ = prepare(&context_, &queue_);
    reader_->StartCall(this);
  }

  ~GrpcStream() override {
    context_.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Event Next(double seconds, Message* message) override {
    const gpr_timespec end = SecondsFromNow(seconds);
    while (stage_ != Stage::kEnded) {
      void* tag = nullptr;
      bool ok = false;
      if (queue_.AsyncNext(&tag, &ok, end) != grpc::CompletionQueue::GOT_EVENT) {
        return Event::kIdle;
      }
      if (Advance(ok, message)) return Event::kMessage;
    }
    return Event::kEnd;
  }

  const absl::Status& status() const override { return status_; }

 private:
  enum class Stage { kStarting, kReading, kFinishing, kEnded };

  // After the pending operation came to its end; true when it brought a message.
  bool Advance(bool ok, Message* message) {
    if (stage_ == Stage::kFinishing) {
      stage_ = Stage::kEnded;
      status_ = translate_(ended_);
      return false;
    }
    const bool got = stage_ == Stage::kReading && ok;
    if (got) *message = std::move(next_);
    if (ok) {
      stage_ = Stage::kReading;
      reader_->Read(&next_, this);
    } else {
      stage_ = Stage::kFinishing;
      reader_->Finish(&ended_, this);
    }
    return got;
  }

  Translate translate_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<Reader> reader_;
  Stage stage_ = Stage::kStarting;
  Message next_;
  grpc::Status ended_;
  absl::Status status_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_API_GRPC_STREAM_H_
