#include "controller/logic/job_requests.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/digest.h"
#include "common/status_macros.h"
#include "controller/logic/cluster_requests.h"
#include "controller/logic/job_events.h"
#include "controller/logic/job_record.h"
#include "controller/logic/job_roots.h"
#include "controller/logic/job_shape.h"
#include "controller/logic/job_updates.h"
#include "controller/logic/names.h"
#include "controller/logic/project_limits.h"
#include "controller/logic/refusal.h"
#include "controller/logic/scheduler_view.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace strata::controller {
namespace {

// A name that is none may have any length, and is told in a header.
constexpr size_t kMostNameBytes = 63;
constexpr size_t kMostReasonBytes = 500;

// Equal for equal messages, within one build.
std::string Canonical(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream out(&bytes);
    google::protobuf::io::CodedOutputStream coded(&out);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

std::string DigestOfRequest(const v1::Job& asked) {
  v1::Job read;
  read.set_name(asked.name());
  read.set_directory(asked.directory());
  *read.mutable_ttl_after_finished() = asked.ttl_after_finished();
  *read.mutable_spec() = asked.spec();
  return common::DigestOf(Canonical(read));
}

// What it is now may have been updated since. Another build's digest says nothing.
bool SameRequest(const v1::JobRecord& kept, const v1::Job& asked) {
  if (kept.request_digest() == DigestOfRequest(asked)) return true;
  return kept.name() == asked.name() && kept.directory() == asked.directory() &&
         SecondsOf(kept.ttl_after_finished()) == SecondsOf(asked.ttl_after_finished()) &&
         Canonical(kept.spec()) == Canonical(asked.spec());
}

absl::Status CheckRequest(const v1::Job& job, const std::string& request_id) {
  RETURN_IF_ERROR(CheckDuration("ttl_after_finished", job.ttl_after_finished()));
  RETURN_IF_ERROR(CheckJobName(job.name()));
  if (request_id.size() > kMostRequestIdBytes) {
    return InvalidField("request_id", absl::StrCat("at most ", kMostRequestIdBytes, " bytes"));
  }
  if (!job.has_spec() || !job.spec().has_model()) return InvalidField("spec", "a job needs one");
  if (job.spec().ByteSizeLong() > kMostSpecBytes) {
    return InvalidField("spec", absl::StrCat("at most ", kMostSpecBytes, " bytes"));
  }
  if (job.directory().empty() || job.directory()[0] != '/') {
    return InvalidField("directory", "an absolute path is needed");
  }
  if (job.spec().train().steps() < 1) return InvalidField("train.steps", "at least 1 is needed");
  const int64_t ranks = RanksOf(job.spec());
  if (ranks < 1 || ranks > kMostRanks) {
    return InvalidField("resources.ranks", absl::StrCat(ranks, " is not from 1 to ", kMostRanks));
  }
  if (job.spec().restart().max_without_progress() < 0) {
    return InvalidField("restart.max_without_progress", "at least 0 is needed");
  }
  return CheckLayout(job.spec());
}

v1::JobRecord NewRecord(const v1::Job& asked) {
  v1::JobRecord record;
  record.set_name(asked.name());
  *record.mutable_spec() = asked.spec();
  if (asked.has_model()) *record.mutable_model() = asked.model();
  record.set_directory(asked.directory());
  if (asked.has_ttl_after_finished()) {
    *record.mutable_ttl_after_finished() = asked.ttl_after_finished();
  }
  record.set_owner(asked.owner());
  record.set_state(v1::Job::QUEUED);
  record.set_target_step(asked.spec().train().steps());
  record.set_reason(kWaitsForDevices);
  return record;
}

absl::Status CheckFolders(const ClusterState& state, const v1::JobRecord& asked) {
  const auto overlap = state.folders.Find(asked);
  if (!overlap.has_value()) return absl::OkStatus();
  const std::string whose = overlap->job.empty() ? "a job of somebody else"
                                                 : absl::StrCat("job ", ShortName(overlap->job));
  const std::string what = absl::StrCat(
      overlap->folder, " belongs to ", whose,
      ", which is not over, and each job deletes old checkpoints in its own folders: choose a "
      "folder apart from it, or wait for that job or cancel it");
  absl::Status status = Refusal(absl::StatusCode::kFailedPrecondition, "DIRECTORY_IN_USE",
                                absl::StrCat(overlap->field, ": ", what));
  SetField(status, overlap->field, what);
  return status;
}

// The levels that its constraints name are the cluster's, once anybody has said which these are.
absl::Status CheckTopology(ClusterState& state, const v1::JobSpec& spec) {
  if (spec.resources().topology().empty()) return absl::OkStatus();
  if (state.cluster_changed) state.scheduler.made = false;
  RefreshCluster(state);
  if (state.scheduler.nodes.empty() && state.map.levels.empty()) return absl::OkStatus();
  const std::vector<std::string>& levels = state.scheduler.cluster.levels();
  for (int i = 0; i < spec.resources().topology_size(); ++i) {
    const std::string& within = spec.resources().topology(i).within();
    const bool known = std::find(levels.begin(), levels.end(), within) != levels.end();
    if (known || within == "node") continue;
    return InvalidField(absl::StrCat("resources.topology[", i, "].within"),
                        absl::StrCat("the topology has no level ", within, " — its levels are ",
                                     absl::StrJoin(levels, ", "), " and node"));
  }
  return absl::OkStatus();
}

absl::Status CheckFeasible(ClusterState& state, const scheduler::Shape& shape) {
  if (state.cluster_changed) state.scheduler.made = false;
  const std::string never = WhyInfeasible(state, shape);
  if (never.empty()) return absl::OkStatus();
  return Refusal(absl::StatusCode::kFailedPrecondition, "INFEASIBLE", never);
}

absl::Status MakeRoom(ClusterState& state, bool only_check, Effects& effects) {
  if (state.jobs.size() < kMostJobs) return absl::OkStatus();
  if (state.finished.empty()) {
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_JOBS",
                   absl::StrCat(state.jobs.size(), " jobs wait or run, and no more than ",
                                kMostJobs, " are kept"));
  }
  const std::string oldest = state.finished.begin()->second;
  if (!only_check) ForgetJob(state, oldest, effects);
  return absl::OkStatus();
}

}  // namespace

absl::Status NoSuchJob(const std::string& name) {
  return Refusal(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                 absl::StrCat("there is no job ", ShortName(name).substr(0, kMostNameBytes)));
}

absl::StatusOr<v1::JobRecord> CreateJob(ClusterState& state, JobMachine& machine,
                                        const v1::CreateJobRequest& request,
                                        const std::string& actor, const DecidedSpec* decided,
                                        Effects& effects) {
  const std::string key = RequestKey(request.job().owner(), request.request_id());
  const auto repeated = key.empty() ? state.by_request.end() : state.by_request.find(key);
  const bool again = repeated != state.by_request.end();
  // What is decided of it may have become another since: the request is what was asked.
  if (again && SameRequest(state.jobs.at(repeated->second).record, request.job())) {
    return state.jobs.at(repeated->second).record;
  }
  v1::Job asked = request.job();
  if (decided != nullptr) *asked.mutable_spec() = decided->spec;
  RETURN_IF_ERROR(CheckRequest(asked, request.request_id()));
  if (again) {
    const v1::JobRecord& kept = state.jobs.at(repeated->second).record;
    return Refusal(absl::StatusCode::kAlreadyExists, "REQUEST_ID_REUSED",
                   absl::StrCat("request_id ", request.request_id(), " made ", kept.name(),
                                ", of another content"));
  }
  if (const JobEntry* taken = state.Find(asked.name()); taken != nullptr) {
    const std::string outcome = v1::Job::State_Name(taken->record.state());
    return Refusal(absl::StatusCode::kAlreadyExists, "NAME_TAKEN",
                   absl::StrCat("there is a job ", ShortName(asked.name()), " already (", outcome,
                                "): choose another name"));
  }
  RETURN_IF_ERROR(CheckProjectAndQueue(state.policy, asked.spec()));
  RETURN_IF_ERROR(CheckSpecLimits(state.policy, asked.spec()));
  RETURN_IF_ERROR(CheckQueueLimit(state, asked.spec()));
  RETURN_IF_ERROR(CheckRoots(state.policy, asked));
  v1::JobRecord record = NewRecord(asked);
  RETURN_IF_ERROR(CheckFolders(state, record));
  const scheduler::Shape shape = ShapeOf(record);
  RETURN_IF_ERROR(CheckTopology(state, asked.spec()));
  RETURN_IF_ERROR(CheckFeasible(state, shape));
  RETURN_IF_ERROR(MakeRoom(state, request.validate_only(), effects));

  if (request.validate_only()) return record;
  record.set_uid(common::DrawUuid(state.entropy));
  record.set_request_id(request.request_id());
  if (!key.empty()) record.set_request_digest(DigestOfRequest(request.job()));
  *record.mutable_create_time() = ToTimestamp(state.wall);
  if (!key.empty()) state.by_request[key] = asked.name();
  JobEntry& job = state.jobs[asked.name()];
  job.record = std::move(record);
  job.shape = shape;
  job.counted_at = state.now;
  TellEvent(job,
            MakeEvent(state, job.record, "CREATED", decided == nullptr ? "" : decided->why, actor),
            effects);
  SaveJob(state, job, effects);
  machine.Schedule(&job);
  return job.record;
}

absl::Status CheckEtag(const std::string& seen, const v1::JobRecord& record) {
  if (seen.empty() || seen == EtagOf(record)) return absl::OkStatus();
  return Refusal(absl::StatusCode::kAborted, "ETAG_MISMATCH",
                 absl::StrCat("job ", ShortName(record.name()), " has changed since (its etag is ",
                              EtagOf(record), "): look at it again, then repeat the request"));
}

absl::StatusOr<v1::JobRecord> CancelJob(ClusterState& state, JobMachine& machine,
                                        const v1::CancelJobRequest& request,
                                        const std::string& actor, Effects& effects) {
  RETURN_IF_ERROR(CheckDuration("grace", request.grace()));
  if (request.reason().size() > kMostReasonBytes) {
    return InvalidField("reason", absl::StrCat("at most ", kMostReasonBytes, " bytes"));
  }
  JobEntry* job = state.Find(request.name());
  if (job == nullptr) return NoSuchJob(request.name());
  v1::JobRecord& record = job->record;
  RETURN_IF_ERROR(CheckEtag(request.etag(), record));
  const bool sooner =
      request.has_grace() &&
      SecondsOf(request.grace()) < (record.has_cancel_grace() ? SecondsOf(record.cancel_grace())
                                                              : state.timing.cancel_seconds);
  if (IsTerminal(record.state()) || (record.cancel_requested() && !sooner)) return record;
  if (!record.cancel_requested()) {
    record.set_cancel_reason(request.reason());
    record.set_cancel_actor(actor);
  }
  record.set_cancel_requested(true);
  if (request.has_grace()) *record.mutable_cancel_grace() = request.grace();
  if (record.state() == v1::Job::RUNNING) {
    record.set_reason(absl::StrCat(
        "is being cancelled",
        record.cancel_reason().empty() ? "" : absl::StrCat(" (", record.cancel_reason(), ")"),
        ": its ranks write a last checkpoint"));
    SaveJob(state, *job, effects);
  }
  machine.Reconcile(*job);
  return record;
}

}  // namespace strata::controller
