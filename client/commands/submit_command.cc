#include <sys/random.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/api/errors.h"
#include "client/commands/attach.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/job_data.h"
#include "client/job_loading.h"
#include "client/machine.h"
#include "client/server_address.h"
#include "client/views/job_view.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

// For calls that may have to be repeated: the same job again, never a second one.
absl::StatusOr<std::string> DrawRequestId() {
  uint64_t words[2];
  if (getrandom(words, sizeof(words), 0) != sizeof(words)) {
    return absl::InternalError("cannot draw a request id — give one with --request-id");
  }
  return absl::StrCat(absl::Hex(words[0], absl::kZeroPad16), absl::Hex(words[1], absl::kZeroPad16));
}

absl::StatusOr<v1::CreateJobRequest> MakeRequest(const Arguments& arguments,
                                                 const LoadedJob& loaded) {
  v1::CreateJobRequest request;
  v1::Job& job = *request.mutable_job();
  job.set_name(JobResource(loaded.file.job.name()));
  *job.mutable_spec() = loaded.file.job;
  const std::string directory = arguments.Text("--dir");
  if (!directory.empty()) job.set_directory(Absolute(directory));
  if (arguments.Has("--ttl")) {
    ASSIGN_OR_RETURN(*job.mutable_ttl_after_finished(),
                     DurationOf("--ttl", arguments.Text("--ttl")));
  }
  request.set_validate_only(arguments.Has("--validate-only"));
  request.set_request_id(arguments.Text("--request-id"));
  if (request.request_id().empty()) {
    ASSIGN_OR_RETURN(*request.mutable_request_id(), DrawRequestId());
  }
  return request;
}

// --validate-only where no cluster is known: what this machine can tell.
int ValidatedHere(const LoadedJob& job, const std::string& output, Terminal& terminal) {
  if (output == "json") terminal.Out(ToJsonText(ToJson(job.file.job)));
  if (output == "yaml") {
    v1::JobSpec file = job.file.job;  // a file says one of the two
    if (file.train().has_epochs()) file.mutable_train()->clear_steps();
    terminal.Out(spec::WriteJob(file));
  }
  terminal.Say(absl::StrCat(job.path, ": no problem found"));
  return kExitDone;
}

int Submitted(const v1::Job& job, const std::string& output, Terminal& terminal) {
  const std::string name = PlainName(job.name());
  if (output == "json" || output == "yaml") terminal.Out(ToText(ToJsonWithSpec(job), output));
  if (output == "name") terminal.Out(name + "\n");
  terminal.Say(absl::StrCat("job ", name, " submitted: ", v1::Job::State_Name(job.state()),
                            job.reason().empty() ? "" : ", ", job.reason()));
  terminal.Say(absl::StrCat("next: strata watch ", name, ", strata describe job ", name));
  return kExitDone;
}

int Submit(const Arguments& arguments, Terminal& terminal) {
  const absl::StatusOr<ServerAddress> address = ResolveServer(arguments.Text("--server"));
  spec::ReadOptions options;
  options.settings = arguments.All("--set");
  // A cluster's memory is the controller's to judge, unless the cluster is this machine.
  const int64_t memory = !address.ok() || address->is_loopback() ? UsableMemory() : 0;
  absl::StatusOr<LoadedJob> loaded =
      LoadJob(arguments.positional()[0], options, DeciderFor(address, memory, "", terminal));
  if (!loaded.ok()) return Fail(loaded.status(), terminal);
  const bool only_validate = arguments.Has("--validate-only");
  const std::string output = arguments.Text("--output", "table");
  const bool here = !address.ok() && only_validate && absl::IsUnavailable(address.status());
  if (!address.ok() && !here) return Fail(address.status(), terminal);
  // Beside the data files, where the nodes that read them find what is made of them.
  const absl::Status complete = CompleteJob(/*cache_folder=*/"", terminal, *loaded);
  if (!complete.ok()) return Fail(complete, terminal);
  if (here) return ValidatedHere(*loaded, output, terminal);
  const absl::StatusOr<v1::CreateJobRequest> request = MakeRequest(arguments, *loaded);
  if (!request.ok()) return Fail(request.status(), terminal);
  const auto client = ClientOf(*address, terminal);
  if (!client.ok()) return Fail(client.status(), terminal);
  const absl::StatusOr<v1::Job> job = (*client)->CreateJob(*request);
  if (ReasonOf(job.status()) == "NAME_TAKEN") {
    spec::Problems problems(loaded->path);
    problems.Add({loaded->file.positions.Of("name"), "name", std::string(job.status().message()),
                  absl::StrCat("for example --set name=", loaded->file.job.name(), "-2")});
    return FailCall(absl::AlreadyExistsError(problems.ToString()), terminal);
  }
  if (absl::IsUnavailable(job.status()) || absl::IsDeadlineExceeded(job.status())) {
    const int code = FailCall(job.status(), terminal);
    terminal.Say(absl::StrCat("whether the job was accepted is not known — with --request-id ",
                              request->request_id(), " it is submitted once at most"));
    return code;
  }
  if (!job.ok()) {
    const absl::Status placed = AtPositions(job.status(), loaded->path, loaded->file.positions);
    return FailCall(AtFlags(placed, {{"ttl_after_finished", "--ttl"},
                                     {"directory", "--dir"},
                                     {"request_id", "--request-id"}}),
                    terminal);
  }
  if (only_validate) return ValidatedHere(*loaded, output, terminal);
  if (!arguments.Has("--attach")) return Submitted(*job, output, terminal);
  terminal.Say(
      absl::StrCat("job ", PlainName(job->name()), " submitted; Ctrl-C detaches, the job goes on"));
  AttachOptions attach;
  attach.outcome = output;
  return Attach(**client, *job, attach, terminal);
}

}  // namespace

Command SubmitCommand() {
  constexpr auto kText = Flag::Kind::kText;
  constexpr auto kSwitch = Flag::Kind::kSwitch;
  Flag set = {"--set", kText, "PATH=VALUE", "change a key of the file; may be repeated"};
  set.repeated = true;
  return ClusterCommand(
      "submit", "JOB.yaml [--attach] [--validate-only] [--request-id ID] [--set PATH=VALUE]",
      "Hand a job to the cluster", {"JOB.yaml"}, 1,
      {{"--attach", kSwitch, "", "follow it and return its outcome"},
       {"--validate-only", kSwitch, "", "only check it; with -o yaml or json, print it completed"},
       {"--request-id", kText, "ID", "submitting again with the same one changes nothing"},
       {"--ttl", kText, "TIME", "delete its record so long after its end, such as 24h"},
       {"--dir", kText, "D", "the job's directory, on all its nodes (default: the cluster's)"},
       set},
      Submit);
}

}  // namespace strata::client
