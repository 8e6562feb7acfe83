#include "controller/logic/refusal.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::controller {

absl::Status Refusal(absl::StatusCode code, const std::string& reason, const std::string& message) {
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("strata");
  absl::Status status(code, message);
  status.SetPayload(kErrorInfoUrl, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Status InvalidField(const std::string& field, const std::string& what) {
  absl::Status status =
      Refusal(absl::StatusCode::kInvalidArgument, "INVALID_FIELD", absl::StrCat(field, ": ", what));
  SetField(status, field, what);
  return status;
}

void SetField(absl::Status& status, const std::string& field, const std::string& what) {
  google::rpc::BadRequest request;
  google::rpc::BadRequest::FieldViolation* violation = request.add_field_violations();
  violation->set_field(field);
  violation->set_description(what);
  status.SetPayload(kBadRequestUrl, absl::Cord(request.SerializeAsString()));
}

void SetQuota(absl::Status& status, const std::string& subject, const std::string& what) {
  google::rpc::QuotaFailure failure;
  google::rpc::QuotaFailure::Violation* violation = failure.add_violations();
  violation->set_subject(subject);
  violation->set_description(what);
  status.SetPayload(kQuotaFailureUrl, absl::Cord(failure.SerializeAsString()));
}

std::string ReasonOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfoUrl);
  google::rpc::ErrorInfo info;
  if (!payload.has_value() || !info.ParseFromString(std::string(*payload))) return "";
  return info.reason();
}

}  // namespace strata::controller
