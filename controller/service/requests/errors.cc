#include "controller/service/requests/errors.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::controller {
namespace {

constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr char kTypePrefix[] = "type.googleapis.com/";
// Bytes of a trailer before base64 and percent-encoding: message and details together stay below
// the 8 KiB of metadata that gRPC clients accept.
constexpr size_t kMostMessage = 1000;
constexpr size_t kMostDetails = 3000;

std::string Shortened(absl::string_view text) {
  if (text.size() <= kMostMessage) return std::string(text);
  size_t end = kMostMessage;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), " …");
}

// Drops violations from the end until they fit.
void FitViolations(size_t most, google::rpc::BadRequest& request) {
  const int all = request.field_violations_size();
  while (request.ByteSizeLong() > most && request.field_violations_size() > 1) {
    request.mutable_field_violations()->RemoveLast();
  }
  if (request.field_violations_size() == all) return;
  auto& last = *request.mutable_field_violations(request.field_violations_size() - 1);
  absl::StrAppend(last.mutable_description(), " (and ", all - request.field_violations_size(),
                  " more problems)");
}

}  // namespace

const char* CodeName(grpc::StatusCode code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS",
                                           "UNAUTHENTICATED"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

absl::Status RefuseFields(absl::StatusCode code, const std::string& reason,
                          const std::vector<FieldViolation>& violations) {
  std::string message;
  google::rpc::BadRequest request;
  for (const FieldViolation& violation : violations) {
    absl::StrAppend(&message, message.empty() ? "" : "\n", violation.field,
                    violation.field.empty() ? "" : ": ", violation.description);
    auto& added = *request.add_field_violations();
    added.set_field(violation.field);
    added.set_description(Shortened(violation.description));
  }
  absl::Status status = Refusal(code, reason, message);
  status.SetPayload(kBadRequestUrl, absl::Cord(request.SerializeAsString()));
  return status;
}

absl::Status WithRetry(absl::Status status, double seconds) {
  google::rpc::RetryInfo info;
  info.mutable_retry_delay()->set_seconds(static_cast<int64_t>(seconds));
  info.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(std::fmod(seconds, 1.0) * 1'000'000'000));
  status.SetPayload(kRetryInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  google::rpc::Status details;
  details.set_code(static_cast<int32_t>(status.code()));
  details.set_message(Shortened(status.message()));
  if (ReasonOf(status).empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(CodeName(code));
    info.set_domain("strata");
    details.add_details()->PackFrom(info);
  }
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    if (!absl::StartsWith(url, kTypePrefix)) return;
    google::protobuf::Any any;
    any.set_type_url(std::string(url));
    any.set_value(std::string(payload));
    google::rpc::BadRequest request;
    if (any.UnpackTo(&request)) {
      FitViolations(kMostDetails - std::min(kMostDetails - 1, details.ByteSizeLong()), request);
      any.PackFrom(request);
    }
    if (details.ByteSizeLong() + any.ByteSizeLong() > kMostDetails + kMostMessage) return;
    *details.add_details() = std::move(any);
  });
  return grpc::Status(code, details.message(), details.SerializeAsString());
}

}  // namespace strata::controller
