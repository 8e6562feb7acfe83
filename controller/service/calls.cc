#include "controller/service/calls.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "controller/logic/refusal.h"

namespace strata::controller {
namespace {

constexpr double kMostSeconds = 600;
constexpr double kRetrySeconds = 0.5;

}  // namespace

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
