#include "controller/service/job_service.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/path_roots.h"
#include "common/status_macros.h"
#include "controller/logic/explain.h"
#include "controller/logic/job_record.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/calls/stream_call.h"
#include "controller/service/files/job_folder.h"
#include "controller/service/files/line_reader.h"
#include "controller/service/requests/auto_decision.h"
#include "controller/service/requests/job_list.h"
#include "controller/service/requests/pages.h"
#include "controller/service/requests/spec_check.h"
#include "controller/service/requests/update_check.h"
#include "proto/strata/v1/jobs.grpc.pb.h"
#include "protocol/step_record.h"

namespace strata::controller {
namespace {

using grpc::ByteBuffer;
using grpc::CallbackServerContext;

constexpr char kName[] = "jobs/NAME";

absl::Status NoSuchJob(const std::string& name) {
  return Refusal(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                 absl::StrCat("there is no job ", ShortName(name)));
}

// Everything about a request that needs no other job: name, folders, the whole spec.
absl::Status PrepareJob(const std::string& controller_directory, v1::CreateJobRequest& request) {
  v1::Job& job = *request.mutable_job();
  if (!request.job_id().empty()) {
    const std::string named = absl::StrCat("jobs/", request.job_id());
    if (!job.name().empty() && job.name() != named) {
      return InvalidField("job_id", "is another name than job.name's — give one of the two");
    }
    job.set_name(named);
  }
  if (job.name().empty()) job.set_name(absl::StrCat("jobs/", job.spec().name()));
  RETURN_IF_ERROR(CheckJobName(job.name()));
  const std::string id = ShortName(job.name());
  if (job.directory().empty()) {
    job.set_directory(absl::StrCat(controller_directory, "/jobs/", id));
  } else if (job.directory()[0] != '/' || job.directory().find('\0') != std::string::npos) {
    return InvalidField("directory", "is no absolute path (every node must find it)");
  } else {
    job.set_directory(std::filesystem::path(job.directory()).lexically_normal().string());
  }
  RETURN_IF_ERROR(CheckSpec(id, *job.mutable_spec()));
  v1::CheckpointSpec& checkpoint = *job.mutable_spec()->mutable_checkpoint();
  if (!checkpoint.has_directory()) {
    checkpoint.set_directory(job.directory() + "/checkpoints");
  }
  return absl::OkStatus();
}

absl::Status ListJobs(const Snapshot& snapshot, const Caller& caller,
                      const v1::ListJobsRequest& request, v1::ListJobsResponse* response) {
  ASSIGN_OR_RETURN(const JobList list, JobList::Parse(request));
  response->set_resource_version(snapshot.resource_version);
  std::vector<const v1::JobRecord*> jobs;
  snapshot.jobs.ForEachAfter("", [&](const v1::JobRecord& job) {
    if (caller.Sees(job.spec())) jobs.push_back(&job);
    return true;
  });
  const auto show = [&](const v1::JobRecord& job) {
    v1::Job shown = ShowJob(snapshot, job);
    HideJobs(snapshot, caller, shown);
    return shown;
  };
  return list.Fill(jobs, show, *response);
}

// As events name it.
std::string ActorOf(const Caller& caller) { return caller.identity.ToString(); }

// jobs/NAME
using Names = std::vector<std::string>;

bool IsToCancel(const Caller& caller, const JobFilter& filter, const v1::JobRecord& job) {
  return !IsTerminal(job.state()) && caller.Sees(job.spec()) &&
         caller.May("JobService/CancelJob", job) && filter(job);
}

absl::StatusOr<Names> ChooseJobs(const Snapshot& snapshot, const Caller& caller,
                                 const std::string& selection) {
  ASSIGN_OR_RETURN(const JobFilter filter, ParseFilter(selection));
  Names names;
  snapshot.jobs.ForEachAfter("", [&](const v1::JobRecord& job) {
    if (IsToCancel(caller, filter, job)) names.push_back(job.name());
    return true;
  });
  return names;
}

// Cancels, or only tells, those of the chosen jobs that the filter still selects and the caller
// may. What does not fit into the answer is told by name and state.
absl::Status CancelJobs(Core& core, Effects& effects, const Caller& caller, const Names& chosen,
                        const v1::CancelJobsRequest& request, v1::CancelJobsResponse* response) {
  ASSIGN_OR_RETURN(const JobFilter filter, ParseFilter(request.filter()));
  size_t bytes = 0;
  for (const std::string& name : chosen) {
    const v1::JobRecord* job = core.FindJob(name);
    if (job == nullptr || !IsToCancel(caller, filter, *job)) continue;
    if (!request.validate_only()) {
      v1::CancelJobRequest one;
      one.set_name(name);
      one.set_reason(request.reason());
      if (request.has_grace()) *one.mutable_grace() = request.grace();
      RETURN_IF_ERROR(core.CancelJob(one, effects, ActorOf(caller)).status());
    }
    v1::Job& shown = *response->add_jobs();
    shown = core.ShowJob(*core.FindJob(name));
    KeepBasic(shown);
    bytes += shown.ByteSizeLong();
    if (bytes <= kMostPageBytes) continue;
    v1::Job brief;
    brief.set_name(name);
    brief.set_state(shown.state());
    shown = brief;
  }
  return absl::OkStatus();
}

// Newest first; a token names the last one by its number.
absl::Status ListJobEvents(const absl::StatusOr<std::vector<Core::EventPointer>>& events,
                           const v1::ListJobEventsRequest& request,
                           v1::ListJobEventsResponse* response) {
  const std::string list = absl::StrCat("events of ", request.parent());
  ASSIGN_OR_RETURN(const Page page, ReadPage(list, request.page_size(), request.page_token()));
  RETURN_IF_ERROR(events.status());
  int64_t before = std::numeric_limits<int64_t>::max();
  if (!page.after.empty() && !absl::SimpleAtoi(page.after, &before)) {
    return InvalidField("page_token", "is none that this list has given out — begin without one");
  }
  int64_t last = 0;
  for (const Core::EventPointer& kept : *events) {
    if (kept->number >= before) continue;
    if (response->events_size() == page.size) {
      response->set_next_page_token(PageToken(list, absl::StrCat(last)));
      break;
    }
    *response->add_events() = kept->event;
    last = kept->number;
  }
  return absl::OkStatus();
}

// A job's metrics.jsonl from a position on; the pool's work.
struct MetricsReplay {
  static constexpr size_t kAtOnce = 256;
  static constexpr int64_t kReadAtOnce = int64_t{4} << 20;  // bytes
  JobFolder folder;
  ProgressPosition position;
  bool opened = false;
  LineReader reader;

  Piece<v1::JobProgress> Next() {
    if (!std::exchange(opened, true)) {
      const absl::StatusOr<common::PathRoots> roots = folder.OpenRoots();
      if (roots.ok()) reader.Add(*roots, folder.path + "/metrics.jsonl");
    }
    reader.Allow(kReadAtOnce);
    std::vector<v1::JobProgress> records;
    while (records.size() < kAtOnce) {
      const std::optional<std::string> line = reader.Next();
      if (!line.has_value()) return {std::move(records), reader.at_end()};
      std::optional<v1::StepRecord> record = protocol::ParseStepLine(*line, folder.job_uid);
      if (!record.has_value()) continue;
      v1::JobProgress progress;
      *progress.mutable_step() = *std::move(record);
      if (position.Covers(progress)) continue;
      position = {progress.step().epoch(), progress.step().step()};
      records.push_back(std::move(progress));
    }
    return {std::move(records), /*last=*/false};
  }
};

// With every call's bytes unparsed, so that what cannot be parsed gets a status of ours.
using RawJobService = v1::JobService::WithRawCallbackMethod_CreateJob<
    v1::JobService::WithRawCallbackMethod_GetJob<v1::JobService::WithRawCallbackMethod_ListJobs<
        v1::JobService::WithRawCallbackMethod_UpdateJob<
            v1::JobService::WithRawCallbackMethod_DeleteJob<
                v1::JobService::WithRawCallbackMethod_SuspendJob<
                    v1::JobService::WithRawCallbackMethod_ResumeJob<
                        v1::JobService::WithRawCallbackMethod_WatchJobs<
                            v1::JobService::WithRawCallbackMethod_CancelJob<
                                v1::JobService::WithRawCallbackMethod_CancelJobs<
                                    v1::JobService::WithRawCallbackMethod_ListJobEvents<
                                        v1::JobService::WithRawCallbackMethod_ExplainJob<
                                            v1::JobService::WithRawCallbackMethod_StreamLogs<
                                                v1::JobService::
                                                    WithRawCallbackMethod_StreamProgress<
                                                        v1::JobService::Service>>>>>>>>>>>>>>;

class JobService final : public RawJobService {
 public:
  explicit JobService(const JobServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* CreateJob(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::CreateJobRequest, v1::Job>;
    const auto decided = std::make_shared<std::optional<DecidedSpec>>();
    return Call::StartAfterRead(
        parts_.environment, "JobService/CreateJob", context, request, response,
        [this](v1::CreateJobRequest& asked) { return PrepareJob(parts_.directory, asked); },
        [this, decided, context](const Core& core, const Caller& caller,
                                 const v1::CreateJobRequest& asked) -> Call::Later {
          if (!AutoDecider::IsDue(core, caller.identity.ToString(), asked)) return nullptr;
          return [this, decided, context, learned = core.plan_families().ToList(),
                  snapshot = core.TakeSnapshot(), &asked](v1::Job*) -> absl::Status {
            ASSIGN_OR_RETURN(*decided, decider_.Decide(asked.job(), {learned, RoomOf(snapshot)},
                                                       [&] { return context->IsCancelled(); }));
            return absl::OkStatus();
          };
        },
        [this, decided](Core& core, Effects& effects, const Caller& caller,
                        v1::CreateJobRequest& asked, v1::Job* job) -> absl::Status {
          if (!asked.validate_only() && !parts_.environment.reactor->has_room()) {
            return WithRetry(Refusal(absl::StatusCode::kResourceExhausted, "DISK_FULL",
                                     "the controller's disk has no room for more jobs"),
                             10);
          }
          asked.mutable_job()->set_owner(caller.identity.ToString());
          ASSIGN_OR_RETURN(const v1::JobRecord record,
                           core.CreateJob(asked, effects, ActorOf(caller),
                                          decided->has_value() ? &**decided : nullptr));
          *job = ToJob(record);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* GetJob(CallbackServerContext* context, const ByteBuffer* request,
                                   ByteBuffer* response) override {
    using Call = UnaryCall<v1::GetJobRequest, v1::Job>;
    return Call::StartRead(
        parts_.environment, "JobService/GetJob", context, request, response,
        [](v1::GetJobRequest& asked) { return NeedName(asked.name(), kName); },
        [](const Core& core, const Caller& caller, const v1::GetJobRequest& asked) -> Call::Later {
          return [snapshot = core.TakeSnapshot(), &caller, &asked](v1::Job* job) {
            const std::shared_ptr<const v1::JobRecord> found = snapshot->jobs.Find(asked.name());
            if (found == nullptr) return NoSuchJob(asked.name());
            *job = ShowJob(*snapshot, *found);
            HideJobs(*snapshot, caller, *job);
            return absl::OkStatus();
          };
        });
  }

  grpc::ServerUnaryReactor* ListJobs(CallbackServerContext* context, const ByteBuffer* request,
                                     ByteBuffer* response) override {
    using Call = UnaryCall<v1::ListJobsRequest, v1::ListJobsResponse>;
    return Call::StartRead(
        parts_.environment, "JobService/ListJobs", context, request, response, nullptr,
        [](const Core& core, const Caller& caller,
           const v1::ListJobsRequest& asked) -> Call::Later {
          return [snapshot = core.TakeSnapshot(), &caller, &asked](v1::ListJobsResponse* listed) {
            return controller::ListJobs(*snapshot, caller, asked, listed);
          };
        });
  }

  grpc::ServerUnaryReactor* CancelJob(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::CancelJobRequest, v1::Job>;
    return Call::Start(
        parts_.environment, {"JobService/CancelJob", /*reads_only=*/false}, context, request,
        response, [](v1::CancelJobRequest& asked) { return NeedName(asked.name(), kName); },
        [](Core& core, Effects& effects, const Caller& caller, const v1::CancelJobRequest& asked,
           v1::Job* job) -> absl::Status {
          ASSIGN_OR_RETURN(const v1::JobRecord record,
                           core.CancelJob(asked, effects, ActorOf(caller)));
          *job = ToJob(record);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* CancelJobs(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::CancelJobsRequest, v1::CancelJobsResponse>;
    const auto chosen = std::make_shared<Names>();
    return Call::StartAfterRead(
        parts_.environment, "JobService/CancelJobs", context, request, response,
        [](v1::CancelJobsRequest& asked) -> absl::Status {
          if (absl::StripAsciiWhitespace(asked.filter()).empty()) {
            return InvalidField("filter", "is missing — `name = *` selects all jobs");
          }
          return ParseFilter(asked.filter()).status();
        },
        [chosen](const Core& core, const Caller& caller,
                 const v1::CancelJobsRequest& asked) -> Call::Later {
          return [chosen, snapshot = core.TakeSnapshot(), &caller,
                  &asked](v1::CancelJobsResponse*) -> absl::Status {
            ASSIGN_OR_RETURN(*chosen, ChooseJobs(*snapshot, caller, asked.filter()));
            return absl::OkStatus();
          };
        },
        [chosen](Core& core, Effects& effects, const Caller& caller,
                 const v1::CancelJobsRequest& asked, v1::CancelJobsResponse* cancelled) {
          return controller::CancelJobs(core, effects, caller, *chosen, asked, cancelled);
        });
  }

  grpc::ServerUnaryReactor* UpdateJob(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::UpdateJobRequest, v1::Job>;
    return Call::Start(
        parts_.environment, {"JobService/UpdateJob", /*reads_only=*/false}, context, request,
        response, [](v1::UpdateJobRequest& asked) { return CheckUpdate(asked); },
        [](Core& core, Effects& effects, const Caller& caller, const v1::UpdateJobRequest& asked,
           v1::Job* job) -> absl::Status {
          ASSIGN_OR_RETURN(const v1::JobRecord record,
                           core.UpdateJob(asked, effects, ActorOf(caller)));
          *job = ToJob(record);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* DeleteJob(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::DeleteJobRequest, v1::DeleteJobResponse>;
    return Call::Start(
        parts_.environment, {"JobService/DeleteJob", /*reads_only=*/false}, context, request,
        response, [](v1::DeleteJobRequest& asked) { return NeedName(asked.name(), kName); },
        [](Core& core, Effects& effects, const Caller& caller, const v1::DeleteJobRequest& asked,
           v1::DeleteJobResponse*) { return core.DeleteJob(asked, effects, ActorOf(caller)); });
  }

  grpc::ServerUnaryReactor* SuspendJob(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::SuspendJobRequest, v1::Job>;
    return Call::Start(
        parts_.environment, {"JobService/SuspendJob", /*reads_only=*/false}, context, request,
        response, [](v1::SuspendJobRequest& asked) { return NeedName(asked.name(), kName); },
        [](Core& core, Effects& effects, const Caller& caller, const v1::SuspendJobRequest& asked,
           v1::Job* job) -> absl::Status {
          ASSIGN_OR_RETURN(const v1::JobRecord record,
                           core.SuspendJob(asked, effects, ActorOf(caller)));
          *job = ToJob(record);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ResumeJob(CallbackServerContext* context, const ByteBuffer* request,
                                      ByteBuffer* response) override {
    using Call = UnaryCall<v1::ResumeJobRequest, v1::Job>;
    return Call::Start(
        parts_.environment, {"JobService/ResumeJob", /*reads_only=*/false}, context, request,
        response, [](v1::ResumeJobRequest& asked) { return NeedName(asked.name(), kName); },
        [](Core& core, Effects& effects, const Caller& caller, const v1::ResumeJobRequest& asked,
           v1::Job* job) -> absl::Status {
          ASSIGN_OR_RETURN(const v1::JobRecord record,
                           core.ResumeJob(asked, effects, ActorOf(caller)));
          *job = ToJob(record);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ListJobEvents(CallbackServerContext* context, const ByteBuffer* request,
                                          ByteBuffer* response) override {
    using Call = UnaryCall<v1::ListJobEventsRequest, v1::ListJobEventsResponse>;
    return Call::StartRead(
        parts_.environment, "JobService/ListJobEvents", context, request, response,
        [](v1::ListJobEventsRequest& asked) -> absl::Status {
          if (asked.parent().empty()) return InvalidField("parent", "is missing — jobs/NAME");
          return absl::OkStatus();
        },
        [](const Core& core, const Caller&, const v1::ListJobEventsRequest& asked) -> Call::Later {
          return
              [events = core.JobEvents(asked.parent()), &asked](v1::ListJobEventsResponse* listed) {
                return controller::ListJobEvents(events, asked, listed);
              };
        });
  }

  grpc::ServerUnaryReactor* ExplainJob(CallbackServerContext* context, const ByteBuffer* request,
                                       ByteBuffer* response) override {
    using Call = UnaryCall<v1::ExplainJobRequest, v1::ExplainJobResponse>;
    return Call::StartRead(
        parts_.environment, "JobService/ExplainJob", context, request, response,
        [](v1::ExplainJobRequest& asked) { return NeedName(asked.name(), kName); },
        [](const Core& core, const Caller& caller,
           const v1::ExplainJobRequest& asked) -> Call::Later {
          return
              [snapshot = core.TakeSnapshot(), &caller, &asked](v1::ExplainJobResponse* explained) {
                const std::shared_ptr<const v1::JobRecord> job = snapshot->jobs.Find(asked.name());
                if (job == nullptr) return NoSuchJob(asked.name());
                *explained = Explain(*snapshot, *job);
                HideJobs(*snapshot, caller, *explained);
                return absl::OkStatus();
              };
        });
  }

  grpc::ServerWriteReactor<ByteBuffer>* WatchJobs(CallbackServerContext* context,
                                                  const ByteBuffer* request) override {
    const auto call = StreamCall<v1::WatchJobsResponse>::Make(parts_.environment,
                                                              "JobService/WatchJobs", *context);
    v1::WatchJobsRequest asked;
    if (absl::Status status = Parse(*request, &asked); !status.ok()) {
      call->End(status);
      return call.get();
    }
    call->Ask(asked, [this, call, asked](const Core& core, const Caller& caller) {
      parts_.watches->Subscribe(core, asked.name(), asked.resource_version(), call,
                                [caller](const v1::Job& job) { return caller.Sees(job.spec()); });
    });
    return call.get();
  }

  grpc::ServerWriteReactor<ByteBuffer>* StreamLogs(CallbackServerContext* context,
                                                   const ByteBuffer* request) override {
    const auto call =
        StreamCall<v1::LogLine>::Make(parts_.environment, "JobService/StreamLogs", *context);
    v1::StreamLogsRequest asked;
    absl::Status status = Parse(*request, &asked);
    if (status.ok()) status = NeedName(asked.name(), kName);
    if (!status.ok()) {
      call->End(status);
      return call.get();
    }
    call->Ask(asked, [this, call, asked](const Core&, const Caller&) {
      auto source = parts_.logs->Follow(asked, asked.follow() ? call : nullptr);
      if (!source.ok()) return call->End(source.status());
      call->Replay(parts_.files, asked.name(), *std::move(source),
                   [call = call.get(), follow = asked.follow()] {
                     if (!follow) call->End(absl::OkStatus());
                   });
    });
    return call.get();
  }

  grpc::ServerWriteReactor<ByteBuffer>* StreamProgress(CallbackServerContext* context,
                                                       const ByteBuffer* request) override {
    const auto call = StreamCall<v1::JobProgress>::Make(parts_.environment,
                                                        "JobService/StreamProgress", *context);
    v1::StreamProgressRequest asked;
    absl::Status status = Parse(*request, &asked);
    if (status.ok()) status = NeedName(asked.name(), kName);
    if (!status.ok()) {
      call->End(status);
      return call.get();
    }
    call->Ask(asked, [this, call, asked](const Core&, const Caller&) {
      const auto folder = parts_.logs->FolderOf(asked.name());
      if (!folder.ok()) return call->End(folder.status());
      ReplayMetrics(call.get(), asked, *folder);
    });
    return call.get();
  }

 private:
  // The records in the job's file, then whatever is newer.
  void ReplayMetrics(StreamCall<v1::JobProgress>* call, const v1::StreamProgressRequest& asked,
                     const JobFolder& folder) {
    const auto replay = std::make_shared<MetricsReplay>();
    replay->folder = folder;
    replay->position = {asked.after_epoch(), asked.after_step()};
    call->Replay(
        parts_.files, asked.name(), [replay] { return replay->Next(); },
        [this, call, replay, asked] {
          call->Ask(asked, [this, self = call->shared_from_this(), replay, name = asked.name()](
                               const Core& core, const Caller&) {
            parts_.progress->Subscribe(core, name, replay->position, self);
          });
        });
  }

  const JobServiceParts parts_;
  AutoDecider decider_{parts_.environment.clock};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(const JobServiceParts& parts) {
  return std::make_unique<JobService>(parts);
}

}  // namespace strata::controller
