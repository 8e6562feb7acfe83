#include "controller/service/calls/calls.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr double kMostSeconds = 600;
constexpr double kRetrySeconds = 0.5;
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

}  // namespace

absl::Status CheckCallRate(const CallEnvironment& environment, const Core& core,
                           const Caller& caller) {
  const auto limit = LimitsOf(caller.rights, core.policy()).calls_per_second;
  const std::string user = caller.identity.ToString();
  if (!limit.has_value()) return absl::OkStatus();
  if (environment.calls->AdmitCall(user, *limit, environment.clock->Now())) return absl::OkStatus();
  const std::string what =
      absl::StrCat(user, " calls more often than ", *limit,
                   " times per second, the most that its projects allow (max_calls_per_second)");
  absl::Status status = Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_CALLS", what);
  SetQuota(status, user, what);
  return WithRetry(status, 1 / *limit);
}

absl::StatusOr<bool> CountStream(const CallEnvironment& environment, const Core& core,
                                 const Caller& caller) {
  const auto most = LimitsOf(caller.rights, core.policy()).streams;
  const std::string user = caller.identity.ToString();
  if (!most.has_value()) return false;
  if (environment.calls->OpenStream(user, *most)) return true;
  const std::string what =
      absl::StrCat(user, " has ", *most,
                   " streams open, the most that its projects allow (max_streams): end one");
  absl::Status status = Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS", what);
  SetQuota(status, user, what);
  return status;
}

CallDescription Describe(const char* method, bool reads_only,
                         const google::protobuf::Message* request) {
  if (request == nullptr) return {method, reads_only, "", ""};
  return {method, reads_only || ChangesNothing(*request), NamedBy(*request), RequestIdOf(*request)};
}

void Audit(const CallEnvironment& environment, const CallDescription& call, const Caller& caller,
           const absl::Status& outcome, Core& core, Effects& effects) {
  if (call.reads_only && !IsRefusal(outcome)) return;
  v1::AuditRecord record = ToRecord(call, caller, outcome);
  if (!outcome.ok()) {
    // What is refused must not be what fills the disk.
    if (!environment.reactor->ready() || !environment.reactor->has_room()) return;
    const auto unrecorded =
        environment.refusals->Admit(record.identity(), environment.clock->Now());
    if (!unrecorded.has_value()) return;
    if (*unrecorded > 0) {
      record.set_reason(
          absl::StrCat(record.reason(), " (", *unrecorded, " more were not recorded before)"));
    }
  }
  core.Audit(std::move(record), environment.audit_records, effects);
}

void AuditLater(const CallEnvironment& environment, const CallDescription& call,
                const Caller& caller, const absl::Status& outcome) {
  Reactor::Input input;
  input.reads_only = true;  // it is left out while nothing can be made durable
  input.apply = [environment, call, caller, outcome](Core& core, Effects& effects) {
    Audit(environment, call, caller, outcome, core, effects);
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
