// What every call has in common: bytes are parsed here (so that malformed ones get a proper
// status), deadlines are kept, the caller is known and has a place, the request goes to the
// reactor, which sees whether the caller may do it, the outcome is counted.
#ifndef STRATA_CONTROLLER_SERVICE_CALLS_CALLS_H_
#define STRATA_CONTROLLER_SERVICE_CALLS_CALLS_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "controller/access/call_limits.h"
#include "controller/access/refusal_meter.h"
#include "controller/service/calls/caller.h"
#include "controller/service/calls/restricted_streams.h"
#include "controller/service/reactor/call_observer.h"
#include "controller/service/reactor/policy_view.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/reactor/read_pool.h"
#include "controller/service/requests/errors.h"
#include "controller/service/transport/authenticator.h"
#include "grpcpp/grpcpp.h"

namespace strata::controller {

// What calls need of their surroundings; all borrowed.
struct CallEnvironment {
  Reactor* reactor = nullptr;
  CallObserver* observer = nullptr;
  const common::Clock* clock = nullptr;
  std::atomic<int>* open_streams = nullptr;  // server streams, of all methods
  Authenticator* authenticator = nullptr;
  const std::vector<std::string>* standing_admins = nullptr;  // users/NAME
  ReadPool* readers = nullptr;
  CallMeter* calls = nullptr;
  RestrictedStreams* restricted = nullptr;  // the reactor thread's
  RefusalMeter* refusals = nullptr;
  const PolicyView* policy = nullptr;
  size_t audit_records = 0;  // kept at most
};

// Held by a call from before it goes to the reactor until it ends.
using CallPlace = std::shared_ptr<void>;
// From any thread, before the reactor's queue, so that whoever is refused takes no room there
// from others. As Authorise, of nodes and callers without any role; ResourceExhausted
// (TOO_MANY_CALLS, with QuotaFailure): the caller has too many calls under way, or, without a role,
// calls too often.
absl::StatusOr<CallPlace> TakePlace(const CallEnvironment& environment, const char* method,
                                    const google::protobuf::Message& request, const Caller& caller);
// After Authorise. ResourceExhausted (TOO_MANY_CALLS, with QuotaFailure): the caller has called
// more often than its projects allow.
absl::Status CheckCallRate(const CallEnvironment& environment, const Core& core,
                           const Caller& caller);
// Likewise (TOO_MANY_STREAMS), for one stream more. True: CloseStream of `calls` is to follow.
absl::StatusOr<bool> CountStream(const CallEnvironment& environment, const Core& core,
                                 const Caller& caller);

// Of a call, for the audit trail.
struct CallDescription {
  const char* method;  // "JobService/GetJob", a literal
  bool reads_only = true;
  std::string resource;    // jobs/NAME, nodes/NAME, tokens/ID, policy
  std::string request_id;  // of requests that have one
};
// `request` may be null: nothing could be read. `response`, or null: names what the call made.
CallDescription Describe(const char* method, bool reads_only,
                         const google::protobuf::Message* request,
                         const google::protobuf::Message* response = nullptr);
// On the reactor's thread, with the effects of the call: adds to the audit trail what changed
// something, and what was refused or failed, as far as the caller's allowance lets it.
void Audit(const CallEnvironment& environment, const CallDescription& call, const Caller& caller,
           const absl::Status& outcome, Core& core, Effects& effects);
// The same for a call that ends before it comes to the reactor's thread. From any thread.
void AuditLater(const CallEnvironment& environment, const CallDescription& call,
                const Caller& caller, const absl::Status& outcome);

// That a call has whose client gave none.
inline constexpr double kDefaultDeadlineSeconds = 60;

// InvalidArgument when the client's deadline is more than 10 minutes away; DeadlineExceeded when
// it has passed.
absl::Status CheckDeadline(const grpc::ServerContextBase& context);
// InvalidArgument when the request names nothing; `form` is what it could name: "jobs/NAME".
absl::Status NeedName(const std::string& name, const char* form);
// InvalidArgument for bytes that are no `Message`.
template <typename Message>
absl::Status Parse(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);
  if (grpc::SerializationTraits<Message>::Deserialize(&copy, message).ok()) return absl::OkStatus();
  return absl::InvalidArgumentError("the request's bytes are no message of type " +
                                    Message::descriptor()->full_name());
}
template <typename Message>
grpc::ByteBuffer Serialize(const Message& message) {
  grpc::ByteBuffer bytes;
  bool own = false;
  static_cast<void>(grpc::SerializationTraits<Message>::Serialize(message, &bytes, &own).ok());
  return bytes;
}
// A refusal by Reactor::Post or a commit, as clients get it.
absl::Status RefusedByReactor(const absl::Status& status);

// One unary call; deletes itself.
template <typename Request, typename Response>
class UnaryCall final : public grpc::ServerUnaryReactor {
 public:
  // On a gRPC thread, before the reactor's: checks that need nothing but the request.
  using Prepare = std::function<absl::Status(Request&)>;
  // On the reactor's thread, when the caller may do it:
  //   absl::Status(Core&, Effects&, const Caller&, Request&, Response*)
  // or, where nothing depends on who calls, the same without the caller.
  class Handle {
   public:
    template <typename Function>
    Handle(Function function) {  // NOLINT: functions are handles
      if constexpr (std::is_invocable_v<Function&, Core&, Effects&, const Caller&, Request&,
                                        Response*>) {
        call_ = std::move(function);
      } else {
        call_ = [function = std::move(function)](Core& core, Effects& effects, const Caller&,
                                                 Request& request, Response* response) {
          return function(core, effects, request, response);
        };
      }
    }
    absl::Status operator()(Core& core, Effects& effects, const Caller& caller, Request& request,
                            Response* response) const {
      return call_(core, effects, caller, request, response);
    }

   private:
    std::function<absl::Status(Core&, Effects&, const Caller&, Request&, Response*)> call_;
  };

  struct Method {
    const char* name;  // "JobService/GetJob"
    bool reads_only = true;
  };

  static grpc::ServerUnaryReactor* Start(const CallEnvironment& environment, const Method& method,
                                         grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response, const Prepare& prepare,
                                         Handle handle) {
    auto* call = new UnaryCall(environment, method, context, response, std::move(handle));
    call->Begin(*request, prepare);
    return call;
  }

  // What is left of a read once the caller was found to be allowed it, on a reader's thread.
  using Later = std::function<absl::Status(Response*)>;
  // Of a call that changes nothing: `plan` runs on the reactor's thread, when the caller may do
  // it, and takes a snapshot; what it returns makes the answer from that, once all that the
  // snapshot holds is durable. The request and the caller live until then.
  using Plan = std::function<Later(const Core&, const Caller&, const Request&)>;
  static grpc::ServerUnaryReactor* StartRead(const CallEnvironment& environment, const char* name,
                                             grpc::CallbackServerContext* context,
                                             const grpc::ByteBuffer* request,
                                             grpc::ByteBuffer* response, const Prepare& prepare,
                                             Plan plan) {
    auto* call = new UnaryCall(
        environment, {name}, context, response,
        [](Core&, Effects&, const Caller&, Request&, Response*) { return absl::OkStatus(); });
    call->plan_ = std::move(plan);
    call->Begin(*request, prepare);
    return call;
  }

  // Of a call that first looks for what it is to change: reads like StartRead, and then, when the
  // caller still may, does what Start's do. `handle` meets a later state than was read. A plan that
  // returns null has nothing to read: then it is as one of Start's.
  static grpc::ServerUnaryReactor* StartAfterRead(
      const CallEnvironment& environment, const char* name, grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request, grpc::ByteBuffer* response, const Prepare& prepare,
      Plan plan, Handle handle) {
    auto* call = new UnaryCall(environment, {name, /*reads_only=*/false}, context, response,
                               std::move(handle));
    call->plan_ = std::move(plan);
    call->acts_ = true;
    call->Begin(*request, prepare);
    return call;
  }

  void OnDone() override {
    // Whatever orders the threads inside gRPC, what End did comes before.
    static_cast<void>(ended_.load(std::memory_order_acquire));
    delete this;
  }

 private:
  UnaryCall(const CallEnvironment& environment, const Method& method,
            grpc::CallbackServerContext* context, grpc::ByteBuffer* response, Handle handle)
      : environment_(environment),
        method_(method),
        context_(context),
        bytes_(response),
        handle_(std::move(handle)),
        began_(environment.clock->Now()) {}

  void Begin(const grpc::ByteBuffer& bytes, const Prepare& prepare) {
    absl::Status status = CheckDeadline(*context_);
    if (status.ok()) status = Parse(bytes, &request_);
    if (!status.ok()) return End(status);
    if (prepare) prepared_ = prepare(request_);
    caller_.peer = context_->peer();
    environment_.authenticator->Authenticate(*context_, [this](absl::StatusOr<Identity> identity) {
      if (!identity.ok()) return Refuse(identity.status());
      caller_.identity = *std::move(identity);
      Forward();
    });
  }

  void Forward() {
    // A request that is wrong is told so after whether the caller may make it at all.
    if (!prepared_.ok() && caller_.identity.is_unprotected()) return End(prepared_);
    absl::StatusOr<CallPlace> place = TakePlace(environment_, method_.name, request_, caller_);
    if (!place.ok()) return Refuse(place.status());
    place_ = *std::move(place);
    Post();
  }

  void Post() {
    Reactor::Input input;
    input.reads_only = method_.reads_only;
    input.apply = [this](Core& core, Effects& effects) { outcome_ = Serve(core, effects); };
    input.release = [this](const absl::Status& durable) { Release(durable); };
    const absl::Status status = environment_.reactor->Post(std::move(input));
    if (!status.ok()) End(RefusedByReactor(status));
  }

  // Before the reactor hears of it.
  void Refuse(const absl::Status& status) {
    AuditLater(environment_, Description(), caller_, status);
    End(status);
  }

  void Release(const absl::Status& durable) {
    if (!durable.ok()) return End(RefusedByReactor(durable));
    if (!outcome_.ok() || !later_) return End(outcome_);
    const bool runs = environment_.readers->Run([this] { Read(); });
    if (!runs) End(RefusedByReactor(absl::ResourceExhaustedError("too many reads wait already")));
  }

  // On a reader's thread.
  void Read() {
    // It waited, and nobody waits for the answer any more.
    if (context_->IsCancelled()) return End(absl::CancelledError("the client has gone"));
    const absl::Status status = std::exchange(later_, nullptr)(&response_);
    if (!status.ok() || !acts_) return End(status);
    Post();
  }

  absl::Status Serve(Core& core, Effects& effects) {
    // Nobody waits for the answer any more: then nothing is to happen either.
    if (context_->IsCancelled()) return absl::CancelledError("the client has gone");
    if (environment_.clock->Now() - began_ > kDefaultDeadlineSeconds && !HasDeadline()) {
      return absl::DeadlineExceededError("the call waited for 60 s");
    }
    absl::Status status =
        Authorise(core, *environment_.standing_admins, method_.name, request_, caller_);
    if (status.ok() && !std::exchange(counted_, true)) {
      status = CheckCallRate(environment_, core, caller_);
    }
    if (status.ok()) status = prepared_;
    if (status.ok() && plan_) {
      later_ = std::exchange(plan_, nullptr)(core, caller_, request_);
      if (acts_ && later_) return absl::OkStatus();  // until it has read
    }
    if (status.ok()) status = handle_(core, effects, caller_, request_, &response_);
    Audit(environment_, Description(), caller_, status, core, effects);
    return status;
  }

  CallDescription Description() const {
    return Describe(method_.name, method_.reads_only, &request_, &response_);
  }

  bool HasDeadline() const {
    return context_->deadline() != std::chrono::system_clock::time_point::max();
  }

  void End(const absl::Status& status) {
    if (status.ok()) *bytes_ = Serialize(response_);
    const grpc::Status result = ToGrpc(status);
    environment_.observer->OnCall(method_.name, CodeName(result.error_code()),
                                  environment_.clock->Now() - began_);
    place_ = nullptr;  // before the client can make its next call
    ended_.store(true, std::memory_order_release);
    Finish(result);
  }

  const CallEnvironment environment_;
  const Method method_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const bytes_;
  const Handle handle_;
  const double began_;
  Plan plan_;
  Later later_;
  bool acts_ = false;     // after it has read
  bool counted_ = false;  // among the calls that its caller may make
  Caller caller_;
  CallPlace place_;
  absl::Status prepared_;
  Request request_;
  Response response_;
  absl::Status outcome_;
  std::atomic<bool> ended_{false};
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_CALLS_CALLS_H_
