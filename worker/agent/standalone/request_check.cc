#include "worker/agent/standalone/request_check.h"

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

constexpr int64_t kMaxRanks = 1024;  // processes on one machine
constexpr int64_t kMaxThreads = 1024;

absl::Status Range(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is not in ", least, " ... ", most));
}

absl::Status Absolute(const char* field, const std::string& path) {
  if (!path.empty() && path[0] == '/') return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": '", path, "' is no absolute path"));
}

absl::Status CheckRun(const v1::StandaloneRequest& request) {
  if (!request.has_job() || !request.job().has_model() || !request.job().has_train()) {
    return absl::InvalidArgumentError("job: missing");
  }
  RETURN_IF_ERROR(Absolute("job_directory", request.job_directory()));
  RETURN_IF_ERROR(Absolute("job.checkpoint.directory", request.job().checkpoint().directory()));
  for (const v1::SsdPath& path : request.job().memory().ssd()) {
    RETURN_IF_ERROR(Absolute("job.memory.ssd.path", path.path()));
  }
  if (!request.metrics_path().empty()) {
    RETURN_IF_ERROR(Absolute("metrics_path", request.metrics_path()));
  }
  RETURN_IF_ERROR(Range("job.train.steps", request.job().train().steps(), 1, INT64_MAX));
  return Range("ranks", request.ranks(), 1, kMaxRanks);
}

absl::Status CheckGeneration(const v1::StandaloneRequest& request) {
  RETURN_IF_ERROR(Range("tokens", request.tokens(), 1, INT32_MAX));
  RETURN_IF_ERROR(Range("top_k", request.top_k(), 0, INT32_MAX));
  if (!(request.top_p() >= 0 && request.top_p() <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_p: ", request.top_p(), " is not between 0 and 1"));
  }
  for (const int32_t token : request.prompt_tokens()) {
    RETURN_IF_ERROR(Range("prompt_tokens", token, 0, INT32_MAX));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const v1::StandaloneRequest& request) {
  RETURN_IF_ERROR(Range("threads_per_rank", request.threads_per_rank(), 1, kMaxThreads));
  switch (request.task()) {
    case v1::StandaloneRequest::TASK_RUN:
      return CheckRun(request);
    case v1::StandaloneRequest::TASK_EVALUATE:
      RETURN_IF_ERROR(Absolute("data_path", request.data_path()));
      RETURN_IF_ERROR(Range("sequence", request.sequence(), 0, INT32_MAX));
      break;
    case v1::StandaloneRequest::TASK_GENERATE:
      RETURN_IF_ERROR(CheckGeneration(request));
      break;
    case v1::StandaloneRequest::TASK_CALIBRATE:
      RETURN_IF_ERROR(Range("threads_alone", request.threads_alone(), 1, kMaxThreads));
      for (const v1::DiskProfile& disk : request.profile().disks()) {
        RETURN_IF_ERROR(Absolute("profile.disks", disk.directory()));
      }
      return Range("ranks", request.ranks(), 2, 2);
    default:
      return absl::InvalidArgumentError("task: none, or one this build does not know");
  }
  RETURN_IF_ERROR(Range("ranks", request.ranks(), 1, kMaxRanks));
  return Absolute("checkpoint_path", request.checkpoint_path());
}

}  // namespace strata::worker
