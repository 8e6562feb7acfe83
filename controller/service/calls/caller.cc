#include "controller/service/calls/caller.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "controller/access/network.h"
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

std::string TextsIn(const Message& message, const char* key) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(key);
  const bool texts = field != nullptr && field->is_repeated() &&
                     field->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
  if (!texts) return "";
  std::vector<std::string> all;
  const auto& reflection = *message.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    all.push_back(reflection.GetRepeatedString(message, field, i));
  }
  return absl::StrJoin(all, ", ");
}

// `core` null: as if there were no jobs.
Target TargetOf(const Core* core, const char* method, const Message& request) {
  Target target;
  target.is_job = absl::StartsWith(method, "JobService/");
  if (const auto* create = dynamic_cast<const v1::CreateJobRequest*>(&request)) {
    target.project = ProjectOfSpec(create->job().spec());
    return target;
  }
  target.name = NamedBy(request);
  if (!target.is_job) return target;
  const v1::JobRecord* job = core == nullptr ? nullptr : core->FindJob(target.name);
  return job == nullptr ? target : TargetOfJob(*job);
}

constexpr char kHidden[] = "a job of another project";

bool IsOfName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

// `hidden`: whether a word is the NAME of a job that is to be hidden.
template <typename Hidden>
void HideNames(const Hidden& hidden, std::string& text) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && IsOfName(text[end])) ++end;
    while (end > at && text[end - 1] == '.') --end;  // of the sentence
    if (end == at) {
      shown += text[at++];
      continue;
    }
    const std::string word = text.substr(at, end - at);
    shown += hidden(word) ? kHidden : word;
    at = end;
  }
  text = std::move(shown);
}

}  // namespace

std::string NamedBy(const Message& request) {
  for (const char* key : {"name", "parent"}) {
    if (std::string named = TextIn(request, key); !named.empty()) return named;
  }
  if (std::string named = TextsIn(request, "names"); !named.empty()) return named;
  const FieldDescriptor* job = request.GetDescriptor()->FindFieldByName("job");
  const bool message = job != nullptr && job->message_type() == v1::Job::descriptor();
  return message ? TextIn(request.GetReflection()->GetMessage(request, job), "name") : "";
}

std::string Caller::Key() const {
  const std::string known = identity.ToString();
  return known.empty() ? NetworkOfPeer(peer) : known;
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

absl::Status CheckBelieved(const Core& core, const Identity& identity) {
  const std::string who = identity.ToString();
  if (IsRevoked(identity, core.policy())) {
    return Refusal(
        absl::StatusCode::kUnauthenticated, "REVOKED",
        absl::StrCat(who,
                     identity.certificate.has_value()
                         ? absl::StrCat(" (certificate ", identity.certificate->serial, ")")
                         : "",
                     " is revoked by the policy: an admin may take it out of revoked:"));
  }
  if (identity.kind != Identity::Kind::kNode || !identity.certificate.has_value() ||
      identity.certificate->begin >= core.removed_nodes().Since(who)) {
    return absl::OkStatus();
  }
  return Refusal(absl::StatusCode::kUnauthenticated, "NODE_REMOVED",
                 absl::StrCat(who,
                              " was deleted after this certificate was given: remove the folder "
                              "tls of its agent, and start that with --join and a token, which "
                              "strata token create makes"));
}

absl::Status Authorise(const Core& core, const std::vector<std::string>& standing_admins,
                       const char* method, const Message& request, Caller& caller) {
  RETURN_IF_ERROR(CheckBelieved(core, caller.identity));
  caller.rights = Rights(caller.identity, core.policy(), standing_admins);
  return ToStatus(caller.rights.Decide(method, TargetOf(&core, method, request)));
}

absl::Status AuthoriseStranger(const Rights& rights, const char* method, const Message& request) {
  return ToStatus(rights.Decide(method, TargetOf(nullptr, method, request)));
}

void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::Job& job) {
  if (caller.rights.SeesAll()) return;
  const auto hidden = [&](const std::string& name) {
    const std::shared_ptr<const v1::JobRecord> other = snapshot.jobs.Find("jobs/" + name);
    return other != nullptr && !caller.Sees(other->spec());
  };
  HideNames(hidden, *job.mutable_reason());
}

void HideJobs(const Snapshot& snapshot, const Caller& caller, v1::ExplainJobResponse& explained) {
  if (caller.rights.SeesAll()) return;
  const auto hidden = [&](const std::string& name) {
    const std::shared_ptr<const v1::JobRecord> other = snapshot.jobs.Find("jobs/" + name);
    return other != nullptr && !caller.Sees(other->spec());
  };
  for (std::string& line : *explained.mutable_lines()) HideNames(hidden, line);
  for (auto& blocker : *explained.mutable_blockers()) {
    HideNames(hidden, *blocker.mutable_text());
    absl::string_view subject = blocker.subject();
    const bool is_job = absl::ConsumePrefix(&subject, "jobs/");
    if (is_job && hidden(std::string(subject))) blocker.clear_subject();
  }
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
