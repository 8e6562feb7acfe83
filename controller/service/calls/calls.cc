#include "controller/service/calls/calls.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "proto/strata/v1/access.pb.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::controller {
namespace {

constexpr double kMostSeconds = 600;
constexpr double kRetrySeconds = 0.5;
// Calls of one caller that are under way: an eighth of what the reactor lets wait. Nobody waits
// for hundreds of answers at a time.
constexpr int64_t kMostCalls = 512;
// The same of nodes and of callers without a role, who may ask who they are and join as nodes; of
// those without an identity together as many as of one with a role.
constexpr int64_t kMostStrangersCalls = 64;
constexpr double kStrangersCallsPerSecond = 50;
constexpr int64_t kMostStreams = 1024;  // open ones of one caller whose projects set no limit
// Of one text in an audit record.
constexpr size_t kMostAuditText = 256;

std::string Cut(absl::string_view text) {
  if (text.size() <= kMostAuditText) return std::string(text);
  size_t end = kMostAuditText;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), " …");
}

// Whether the caller was kept from something, rather than unlucky with it.
bool IsRefusal(const absl::Status& outcome) {
  return absl::IsPermissionDenied(outcome) || absl::IsUnauthenticated(outcome);
}

v1::AuditRecord ToRecord(const CallDescription& call, const Caller& caller,
                         const absl::Status& outcome) {
  v1::AuditRecord record;
  record.set_identity(caller.identity.ToString());
  record.set_peer(Cut(caller.peer));
  record.set_method(call.method);
  record.set_resource(Cut(call.resource));
  record.set_outcome(CodeName(static_cast<grpc::StatusCode>(outcome.code())));
  record.set_reason(Cut(outcome.message()));
  record.set_request_id(Cut(call.request_id));
  if (const auto& shown = caller.identity.certificate) record.set_certificate(shown->serial);
  return record;
}

std::string RequestIdOf(const google::protobuf::Message& request) {
  const auto* field = request.GetDescriptor()->FindFieldByName("request_id");
  return field == nullptr ? "" : request.GetReflection()->GetString(request, field);
}

bool ChangesNothing(const google::protobuf::Message& request) {
  const auto* field = request.GetDescriptor()->FindFieldByName("validate_only");
  return field != nullptr && request.GetReflection()->GetBool(request, field);
}

absl::Status TooManyCalls(const std::string& caller, const std::string& what) {
  absl::Status status = Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_CALLS", what);
  SetQuota(status, caller, what);
  return status;
}

// Null: the caller has too many.
CallPlace Take(CallMeter* calls, const std::string& caller, int64_t most) {
  if (!calls->BeginCall(caller, most)) return nullptr;
  return {calls, [calls, caller](void*) { calls->EndCall(caller); }};
}

}  // namespace

absl::StatusOr<CallPlace> TakePlace(const CallEnvironment& environment, const char* method,
                                    const google::protobuf::Message& request,
                                    const Caller& caller) {
  const std::shared_ptr<const v1::Policy> policy = environment.policy->Get();
  if (policy == nullptr) return CallPlace();
  const Rights rights(caller.identity, *policy, *environment.standing_admins);
  if (rights.unrestricted()) return CallPlace();
  const std::string key = caller.Key();
  const bool has_role = !rights.roles().empty() && caller.identity.kind != Identity::Kind::kNode;
  if (!has_role) RETURN_IF_ERROR(AuthoriseStranger(rights, method, request));
  if (!has_role &&
      !environment.calls->AdmitCall(key, kStrangersCallsPerSecond, environment.clock->Now())) {
    return WithRetry(
        TooManyCalls(key, absl::StrCat(key, " calls more often than ", kStrangersCallsPerSecond,
                                       " times per second, the most without a role")),
        1 / kStrangersCallsPerSecond);
  }
  const int64_t most = has_role ? kMostCalls : kMostStrangersCalls;
  CallPlace place = Take(environment.calls, key, most);
  if (place != nullptr && caller.identity.ToString().empty()) {
    const CallPlace among_all = Take(environment.calls, "", kMostCalls);
    if (among_all == nullptr) place = nullptr;
    if (place != nullptr) place = {environment.calls, [place, among_all](void*) {}};  // both
  }
  if (place != nullptr) return place;
  return WithRetry(TooManyCalls(key, absl::StrCat(key, " has ", most,
                                                  " calls under way, the most at a time: wait for "
                                                  "their answers")),
                   kRetrySeconds);
}

absl::Status CheckCallRate(const CallEnvironment& environment, const Core& core,
                           const Caller& caller) {
  const auto limit = LimitsOf(caller.rights, core.policy()).calls_per_second;
  const std::string user = caller.identity.ToString();
  if (!limit.has_value()) return absl::OkStatus();
  if (environment.calls->AdmitCall(user, *limit, environment.clock->Now())) return absl::OkStatus();
  const std::string what =
      absl::StrCat(user, " calls more often than ", absl::StrFormat("%.15g", *limit),
                   " times per second, the most that its projects allow (max_calls_per_second)");
  return WithRetry(TooManyCalls(user, what), 1 / *limit);
}

absl::StatusOr<bool> CountStream(const CallEnvironment& environment, const Core& core,
                                 const Caller& caller) {
  if (caller.rights.unrestricted()) return false;
  const auto limit = LimitsOf(caller.rights, core.policy()).streams;
  const std::string user = caller.identity.ToString();
  const int64_t most = limit.value_or(kMostStreams);
  if (environment.calls->OpenStream(user, most)) return true;
  const std::string what = absl::StrCat(
      user, " has ", most, " streams open, the most ",
      limit.has_value() ? "that its projects allow (max_streams)" : "of one caller", ": end one");
  absl::Status status = Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS", what);
  SetQuota(status, user, what);
  return status;
}

CallDescription Describe(const char* method, bool reads_only,
                         const google::protobuf::Message* request,
                         const google::protobuf::Message* response) {
  if (request == nullptr) return {method, reads_only, "", ""};
  std::string resource = NamedBy(*request);
  if (resource.empty() && response != nullptr) resource = NamedBy(*response);
  if (const auto* enrol = dynamic_cast<const v1::EnrollNodeRequest*>(request)) {
    resource = NodeName(enrol->node());
  }
  if (dynamic_cast<const v1::ApplyPolicyRequest*>(request) != nullptr) resource = "policy";
  return {method, reads_only || ChangesNothing(*request), resource, RequestIdOf(*request)};
}

namespace {

// Absent: it is not to be recorded. From any thread.
std::optional<v1::AuditRecord> RecordOf(const CallEnvironment& environment,
                                        const CallDescription& call, const Caller& caller,
                                        const absl::Status& outcome) {
  if (call.reads_only && !IsRefusal(outcome)) return std::nullopt;
  v1::AuditRecord record = ToRecord(call, caller, outcome);
  if (outcome.ok()) return record;
  // What is refused must not be what fills the disk.
  if (!environment.reactor->ready() || !environment.reactor->has_room()) return std::nullopt;
  const auto unrecorded = environment.refusals->Admit(caller.Key(), !record.identity().empty(),
                                                      environment.clock->Now());
  if (!unrecorded.has_value()) return std::nullopt;
  if (*unrecorded > 0) {
    record.set_reason(absl::StrCat(record.reason(), " (refused ", *unrecorded, " more times)"));
  }
  return record;
}

}  // namespace

void Audit(const CallEnvironment& environment, const CallDescription& call, const Caller& caller,
           const absl::Status& outcome, Core& core, Effects& effects) {
  std::optional<v1::AuditRecord> record = RecordOf(environment, call, caller, outcome);
  if (record.has_value()) core.Audit(*std::move(record), environment.audit_records, effects);
}

void AuditLater(const CallEnvironment& environment, const CallDescription& call,
                const Caller& caller, const absl::Status& outcome) {
  std::optional<v1::AuditRecord> record = RecordOf(environment, call, caller, outcome);
  if (!record.has_value()) return;
  Reactor::Input input;
  input.reads_only = true;  // it is left out while nothing can be made durable
  input.apply = [environment, record = *std::move(record)](Core& core, Effects& effects) {
    if (environment.reactor->ready()) core.Audit(record, environment.audit_records, effects);
  };
  input.release = [](const absl::Status&) {};
  // Too many wait: then this one is not recorded.
  static_cast<void>(environment.reactor->Post(std::move(input)).ok());
}

absl::Status CheckDeadline(const grpc::ServerContextBase& context) {
  const auto deadline = context.deadline();
  if (deadline == std::chrono::system_clock::time_point::max()) return absl::OkStatus();
  const double left =
      std::chrono::duration<double>(deadline.time_since_epoch()).count() - common::WallSeconds();
  if (left > kMostSeconds) {
    return Refusal(absl::StatusCode::kInvalidArgument, "DEADLINE_TOO_LONG",
                   absl::StrCat("the call's deadline is ", static_cast<int64_t>(left),
                                " s away: at most ", kMostSeconds, " s are allowed"));
  }
  if (left <= 0) return absl::DeadlineExceededError("the call's deadline has passed");
  return absl::OkStatus();
}

absl::Status NeedName(const std::string& name, const char* form) {
  if (!name.empty()) return absl::OkStatus();
  return InvalidField("name", absl::StrCat("is missing — ", form));
}

absl::Status RefusedByReactor(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    return WithRetry(Refusal(status.code(), "OVERLOADED", std::string(status.message())),
                     kRetrySeconds);
  }
  return WithRetry(Refusal(status.code(), "CONTROLLER_UNAVAILABLE", std::string(status.message())),
                   kRetrySeconds);
}

}  // namespace strata::controller
