#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/cluster_call.h"
#include "client/commands/registry.h"
#include "client/exit_codes.h"
#include "client/tracing/chrome_trace.h"
#include "client/views/job_view.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "protocol/trace_file.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;

// Slices that a viewer still opens with ease: of more, only the latest steps are shown unless
// others are asked for.
constexpr int64_t kMostRecordsUnasked = 200000;

struct Steps {
  int64_t first = 0, last = 0;
  std::string ToString() const {
    return first == last ? absl::StrCat("step ", first) : absl::StrCat("steps ", first, "-", last);
  }
};

// "A-B" or "A".
absl::StatusOr<Steps> ParseSteps(const std::string& text) {
  const size_t dash = text.find('-');
  Steps steps;
  const bool good =
      absl::SimpleAtoi(text.substr(0, dash), &steps.first) &&
      absl::SimpleAtoi(dash == std::string::npos ? text : text.substr(dash + 1), &steps.last) &&
      steps.first >= 1 && steps.first <= steps.last;
  if (good) return steps;
  return absl::InvalidArgumentError(absl::StrCat("--steps ", spec::Shown(text),
                                                 ": must be A-B or A, of steps counted from 1, "
                                                 "such as --steps 40-42"));
}

// "12-40", or "12-17, 19-40".
std::string Ranges(const std::vector<int64_t>& numbers) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    ranges.push_back(end == i + 1 ? absl::StrCat(numbers[i])
                                  : absl::StrCat(numbers[i], "-", numbers[end - 1]));
    i = end;
  }
  return absl::StrJoin(ranges, ", ");
}

// The latest of the whole steps that follow each other.
Steps Latest(const std::vector<int64_t>& whole, int64_t records_per_step) {
  const int64_t most =
      std::max<int64_t>(1, kMostRecordsUnasked / std::max<int64_t>(1, records_per_step));
  Steps steps{whole.back(), whole.back()};
  for (size_t i = whole.size() - 1; i > 0 && whole[i - 1] == whole[i] - 1; --i) {
    if (steps.last - steps.first + 1 >= most) break;
    --steps.first;
  }
  return steps;
}

absl::StatusOr<Steps> Choose(const Arguments& arguments, const protocol::JobTrace& trace,
                             const std::string& directory) {
  const std::vector<int64_t> whole = WholeSteps(trace);
  const std::string asked = arguments.Text("--steps");
  Steps steps;
  if (!asked.empty()) {
    ASSIGN_OR_RETURN(steps, ParseSteps(asked));
  }
  if (whole.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory,
                     ": no step that all ranks have finished is kept yet — try again "
                     "when the job has trained for a step"));
  }
  if (asked.empty()) return Latest(whole, RecordsPerStep(trace));
  int64_t kept = std::count_if(whole.begin(), whole.end(), [&](int64_t step) {
    return step >= steps.first && step <= steps.last;
  });
  if (kept == steps.last - steps.first + 1) return steps;
  return absl::InvalidArgumentError(absl::StrCat("--steps ", asked,
                                                 ": not kept (the steps of which ",
                                                 "every rank has all are ", Ranges(whole), ")"));
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The directory that the argument names, or the controller does. Prints what is wrong and returns
// an empty one with its exit code in `code` otherwise.
std::string DirectoryOf(const Arguments& arguments, Terminal& terminal, int& code) {
  const std::string& named = arguments.positional()[0];
  if (IsFolder(named)) return named;
  if (absl::StrContains(named, '/') && !absl::StartsWith(named, "jobs/")) {
    terminal.Error(absl::StrCat(named,
                                ": no such directory — name a job's directory, or a job of "
                                "the cluster"));
    code = kExitUsage;
    return "";
  }
  const auto client = Reach(arguments, terminal, code);
  if (client == nullptr) return "";
  const absl::StatusOr<v1::Job> job = client->GetJob(JobResource(named));
  if (!job.ok()) {
    code = FailCallAbout("job", named, job.status(), terminal);
    return "";
  }
  if (IsFolder(protocol::TraceFolder(job->directory()))) return job->directory();
  const std::string nodes = PlacementText(*job);
  terminal.Error(absl::StrCat(
      "job ", PlainName(job->name()), ": no trace in ", protocol::TraceFolder(job->directory()),
      " (it has not begun to train, or its directory is not shared with this machine) — ",
      nodes.empty() ? "where it is" : absl::StrCat("on its node: ", nodes), ", run strata trace ",
      job->directory(), " -o F.json"));
  code = kExitUsage;
  return "";
}

// A damaged file is the user's to know of: 2, as all unusable files.
int FailReading(const absl::Status& status, Terminal& terminal) {
  terminal.Error(std::string(status.message()));
  return absl::IsDataLoss(status) || absl::IsNotFound(status) ? kExitUsage : ExitCodeOf(status);
}

void Conclude(const std::string& path, const protocol::JobTrace& trace, const Steps& steps,
              Terminal& terminal) {
  terminal.Say(absl::StrCat(path, ": ", steps.ToString(), " of ", trace.ranks.size(),
                            trace.ranks.size() == 1 ? " rank, measured" : " ranks, measured",
                            trace.predicted.has_value()
                                ? absl::StrCat(" and predicted (", trace.predicted->costs(), ")")
                                : " (no predicted timeline is kept)",
                            " — open it at https://ui.perfetto.dev"));
  if (trace.missing.empty()) return;
  const std::vector<int64_t> missing(trace.missing.begin(), trace.missing.end());
  terminal.Error(absl::StrCat("warning: ranks without a trace here: ", Ranges(missing),
                              " (their nodes do not share the directory, or a notice says why)"));
}

int Trace(const Arguments& arguments, Terminal& terminal) {
  int code = kExitDone;
  const std::string directory = DirectoryOf(arguments, terminal, code);
  if (directory.empty()) return code;
  const absl::StatusOr<protocol::JobTrace> trace = protocol::ReadJobTrace(directory);
  if (!trace.ok()) return FailReading(trace.status(), terminal);
  const absl::StatusOr<Steps> steps = Choose(arguments, *trace, directory);
  if (!steps.ok()) return Fail(steps.status(), terminal);
  const std::string path = arguments.Text("--output");
  const absl::Status written =
      common::ReplaceFile(path, ChromeTrace(*trace, steps->first, steps->last), /*durable=*/false);
  if (!written.ok()) return Fail(written, terminal);
  Conclude(path, *trace, *steps, terminal);
  return kExitDone;
}

}  // namespace

Command TraceCommand() {
  Command command;
  command.name = "trace";
  command.usage = "NAME|DIR [--steps A-B] -o F.json";
  command.summary = "Write a job's last steps, predicted and measured, for Perfetto";
  command.arguments = {"NAME or DIR"};
  command.most_arguments = 1;
  command.flags = {
      {"--output", Flag::Kind::kText, "FILE", "the file to write", "-o"},
      {"--steps", Flag::Kind::kText, "A-B",
       "of those that are kept (default: the last ones, as many as a viewer opens with ease)"},
  };
  command.flags[0].required = true;
  command.run = Trace;
  return command;
}

}  // namespace strata::client
