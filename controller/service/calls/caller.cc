#include "controller/service/calls/caller.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "proto/strata/v1/jobs.pb.h"
#include "spec/policy_defaults.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::string ProjectOfSpec(const v1::JobSpec& spec) {
  return spec.project().empty() ? spec::kDefaultName : spec.project();
}

Target TargetOfJob(const v1::JobRecord& job) {
  return {.name = job.name(),
          .project = ProjectOfSpec(job.spec()),
          .owner = job.owner(),
          .is_job = true};
}

std::string TextIn(const Message& message, const char* key) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(key);
  const bool text = field != nullptr && !field->is_repeated() &&
                    field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  return text ? message.GetReflection()->GetString(message, field) : "";
}

Target TargetOf(const Core& core, const char* method, const Message& request) {
  Target target;
  target.is_job = absl::StartsWith(method, "JobService/");
  if (const auto* create = dynamic_cast<const v1::CreateJobRequest*>(&request)) {
    target.project = ProjectOfSpec(create->job().spec());
    return target;
  }
  target.name = NamedBy(request);
  if (!target.is_job) return target;
  const v1::JobRecord* job = core.FindJob(target.name);
  return job == nullptr ? target : TargetOfJob(*job);
}

}  // namespace

std::string NamedBy(const Message& request) {
  for (const char* key : {"name", "parent"}) {
    if (std::string named = TextIn(request, key); !named.empty()) return named;
  }
  const FieldDescriptor* job = request.GetDescriptor()->FindFieldByName("job");
  const bool message = job != nullptr && job->message_type() == v1::Job::descriptor();
  return message ? TextIn(request.GetReflection()->GetMessage(request, job), "name") : "";
}

bool Caller::Sees(const v1::JobSpec& spec) const { return rights.Sees(ProjectOfSpec(spec)); }

bool Caller::May(absl::string_view method, const v1::JobRecord& job) const {
  return rights.Decide(method, TargetOfJob(job)).allowed;
}

absl::Status ToStatus(const Decision& decision) {
  if (decision.allowed) return absl::OkStatus();
  return decision.unknown
             ? Refusal(absl::StatusCode::kUnauthenticated, "IDENTITY_REQUIRED", decision.reason)
             : Refusal(absl::StatusCode::kPermissionDenied, "ROLE_REQUIRED", decision.reason);
}

absl::Status Authorise(const Core& core, const std::vector<std::string>& standing_admins,
                       const char* method, const Message& request, Caller& caller) {
  caller.rights = Rights(caller.identity, core.policy(), standing_admins);
  return ToStatus(caller.rights.Decide(method, TargetOf(core, method, request)));
}

void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::Node& node) {
  if (caller.rights.SeesAll()) return;
  const auto hidden = [&](const std::string& name) {
    const std::shared_ptr<const v1::JobRecord> job = snapshot.jobs.Find(name);
    return job == nullptr || !caller.Sees(job->spec());
  };
  auto& jobs = *node.mutable_jobs();
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(), hidden), jobs.end());
  for (std::string& job : *node.mutable_failure_jobs()) {
    if (hidden(job)) job.clear();  // in the order of failure_times
  }
}

}  // namespace strata::controller
