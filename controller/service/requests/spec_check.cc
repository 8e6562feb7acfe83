#include "controller/service/requests/spec_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/unknown_field_set.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "controller/service/requests/errors.h"
#include "planner/search/auto_layout.h"
#include "spec/defaults.h"
#include "spec/job_file.h"
#include "spec/policy_file.h"
#include "spec/problems.h"
#include "spec/validate.h"

namespace strata::controller {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMostBytes = 1 << 20;
constexpr char kInvalid[] = "INVALID_JOB";

std::string Join(const std::string& path, const std::string& field) {
  return path.empty() ? field : absl::StrCat(path, ".", field);
}

// What the wire allows and a file does not: fields and enum values of other versions.
void CheckKnown(const Message& section, const std::string& path,
                std::vector<FieldViolation>& found) {
  if (found.size() >= spec::Problems::kMost) return;
  const auto& reflection = *section.GetReflection();
  const auto& unknown = reflection.GetUnknownFields(section);
  if (!unknown.empty()) {
    found.push_back({path, absl::StrCat("field number ", unknown.field(0).number(),
                                        " is unknown — client and controller differ in version")});
  }
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(section, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string here = Join(path, field->name());
    if (field->is_repeated()) {
      const bool sections = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      for (int i = 0; sections && i < reflection.FieldSize(section, field); ++i) {
        CheckKnown(reflection.GetRepeatedMessage(section, field, i),
                   absl::StrCat(here, "[", i, "]"), found);
      }
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      CheckKnown(reflection.GetMessage(section, field), here, found);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const int value = reflection.GetEnumValue(section, field);
      if (value != 0 && field->enum_type()->FindValueByNumber(value) != nullptr) continue;
      found.push_back({here, absl::StrCat("value ", value, " is unknown")});
    }
  }
}

void CheckPath(bool given, const std::string& value, const std::string& path,
               std::vector<FieldViolation>& found) {
  if (!given) return;
  const std::string shown = spec::Shown(value);
  if (!absl::StartsWith(value, "/")) {
    found.push_back({path, absl::StrCat(shown,
                                        " is no absolute path (the cluster's nodes know "
                                        "nothing of the client's folder)")});
  } else if (value.find('\0') != std::string::npos) {
    found.push_back({path, absl::StrCat(shown, " is no path")});
  }
}

void CheckPaths(const v1::JobSpec& spec, std::vector<FieldViolation>& found) {
  CheckPath(spec.model().has_from(), spec.model().from(), "model.from", found);
  for (int i = 0; i < spec.data().train_size(); ++i) {
    const auto& file = spec.data().train(i);
    CheckPath(file.has_path(), file.path(), absl::StrCat("data.train[", i, "].path"), found);
  }
  CheckPath(spec.data().has_tokenizer(), spec.data().tokenizer(), "data.tokenizer", found);
  const auto& validation = spec.data().validation();
  CheckPath(validation.has_path(), validation.path(), "data.validation.path", found);
  CheckPath(spec.train().has_start_from(), spec.train().start_from(), "train.start_from", found);
  CheckPath(spec.checkpoint().has_directory(), spec.checkpoint().directory(),
            "checkpoint.directory", found);
  for (int i = 0; i < spec.memory().ssd_size(); ++i) {
    const v1::SsdPath& ssd = spec.memory().ssd(i);
    CheckPath(ssd.has_path(), ssd.path(), absl::StrCat("memory.ssd[", i, "].path"), found);
  }
}

// Adds them by their paths; returns whether any says that the file must change.
bool AddProblems(const spec::Problems& problems, std::vector<FieldViolation>& found) {
  bool invalid = false;
  for (const spec::Problem& problem : problems.Sorted()) {
    invalid |= problem.kind == spec::ProblemKind::kInvalid;
    found.push_back({problem.path, problem.remedy.empty()
                                       ? problem.what
                                       : absl::StrCat(problem.what, " — ", problem.remedy)});
  }
  return invalid;
}

v1::JobSpec WithoutAutos(v1::JobSpec job) {
  if (job.parallel().automatic()) job.clear_parallel();
  spec::ClosePlaces(job);
  return job;
}

}  // namespace

absl::Status CheckPolicy(const v1::Policy& policy) {
  constexpr char kInvalidPolicy[] = "INVALID_POLICY";
  if (policy.ByteSizeLong() > kMostBytes) {
    return RefuseFields(absl::StatusCode::kInvalidArgument, kInvalidPolicy,
                        {{"policy", absl::StrCat("has ", policy.ByteSizeLong(), " bytes, at most ",
                                                 kMostBytes, " are allowed")}});
  }
  std::vector<FieldViolation> violations;
  CheckKnown(policy, "", violations);
  if (violations.empty()) {
    spec::Problems problems("policy");
    spec::ReadPolicy(spec::WritePolicy(policy), problems);
    AddProblems(problems, violations);
  }
  if (violations.empty()) return absl::OkStatus();
  return RefuseFields(absl::StatusCode::kInvalidArgument, kInvalidPolicy, violations);
}

absl::Status CheckSpec(absl::string_view default_name, v1::JobSpec& spec) {
  if (spec.ByteSizeLong() > kMostBytes) {
    return RefuseFields(absl::StatusCode::kInvalidArgument, kInvalid,
                        {{"", absl::StrCat("the job has ", spec.ByteSizeLong(), " bytes, at most ",
                                           kMostBytes, " are allowed")}});
  }
  std::vector<FieldViolation> violations;
  CheckKnown(spec, "", violations);
  if (!violations.empty()) {
    return RefuseFields(absl::StatusCode::kInvalidArgument, kInvalid, violations);
  }
  // By way of the file's text the wire's values meet the very same checks.
  spec::Problems problems("job");
  spec::ReadOptions options;
  options.default_name = std::string(default_name);
  options.completed = true;
  const spec::JobFile file = spec::ReadJob(spec::WriteJob(spec), options, problems);
  if (problems.empty()) spec::CheckSupported(WithoutAutos(file.job), file.positions, problems);
  bool invalid = AddProblems(problems, violations);
  const size_t before = violations.size();
  CheckPaths(spec, violations);
  invalid |= violations.size() > before;
  if (violations.empty()) {
    if (!planner::LeavesToDecide(spec)) spec = file.job;
    return absl::OkStatus();
  }
  return RefuseFields(
      invalid ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kFailedPrecondition,
      invalid ? kInvalid : "INFEASIBLE", violations);
}

}  // namespace strata::controller
