#include "client/api/errors.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/exit_codes.h"
#include "proto/google/rpc/error_details.pb.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

constexpr char kTypePrefix[] = "type.googleapis.com/";

// The detail of type `Message`, if the status has one that can be read.
template <typename Message>
Message DetailOf(const absl::Status& status) {
  Message detail;
  const auto payload =
      status.GetPayload(absl::StrCat(kTypePrefix, Message::descriptor()->full_name()));
  if (payload.has_value() && !detail.ParseFromString(std::string(*payload))) detail.Clear();
  return detail;
}

}  // namespace

absl::Status WithDetails(absl::StatusCode code, absl::string_view message,
                         absl::string_view details) {
  absl::Status status(code, message);
  google::rpc::Status carried;
  if (status.ok() || details.empty() || !carried.ParseFromString(std::string(details))) {
    return status;
  }
  for (const auto& detail : carried.details()) {
    status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  return DetailOf<google::rpc::ErrorInfo>(status).reason();
}

std::vector<FieldViolation> ViolationsOf(const absl::Status& status) {
  std::vector<FieldViolation> found;
  const auto request = DetailOf<google::rpc::BadRequest>(status);
  for (const auto& violation : request.field_violations()) {
    absl::string_view field = violation.field();
    absl::ConsumePrefix(&field, "job.");
    absl::ConsumePrefix(&field, "spec.");
    found.push_back({std::string(field), violation.description()});
  }
  return found;
}

int ExitCodeOfCall(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return reason.empty() || reason == "INFEASIBLE" ? kExitInfeasible : kExitFailed;
    case absl::StatusCode::kUnauthenticated:
      return kExitNotAllowed;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnimplemented:
      return kExitFailed;
    default:
      return ExitCodeOf(status);
  }
}

namespace {

absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status told(status.code(), message);
  status.ForEachPayload(
      [&](absl::string_view type, const absl::Cord& payload) { told.SetPayload(type, payload); });
  return told;
}

}  // namespace

absl::Status AtFlags(const absl::Status& status, const std::map<std::string, std::string>& flags) {
  std::vector<std::string> lines;
  bool typed = false;
  for (const FieldViolation& violation : ViolationsOf(status)) {
    const auto flag = flags.find(violation.field.substr(0, violation.field.find_first_of("[")));
    typed |= flag != flags.end();
    const std::string& name = flag == flags.end() ? violation.field : flag->second;
    lines.push_back(absl::StrCat(name, ": ", violation.description));
  }
  return typed ? WithMessage(status, absl::StrJoin(lines, "\n")) : status;
}

absl::Status AtPositions(const absl::Status& status, const std::string& file,
                         const spec::PositionMap& positions) {
  spec::Problems problems(file);
  for (FieldViolation& violation : ViolationsOf(status)) {
    problems.Add({positions.Of(violation.field), std::move(violation.field),
                  std::move(violation.description), ""});
  }
  if (problems.empty()) return status;
  return WithMessage(status, problems.ToString());
}

}  // namespace strata::client
