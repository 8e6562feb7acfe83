#include "client/doctor/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/machine.h"
#include "client/worker_process.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "spec/job_file.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using v1::StandaloneRequest;

constexpr int kRanks = 2;
constexpr int kFirstMeasuredStep = 3;  // the first ones touch everything for the first time
constexpr int kSteps = 40;
constexpr double kMostExposed = 0.5;  // of the communication, where overlap works

// Almost a million parameters: tens of milliseconds of computation a step beside some megabytes of
// gradients, also on a slow machine.
std::string JobText(const std::string& folder) {
  return absl::StrCat(R"(
name: doctor
model: {family: llama, layers: 4, hidden: 128, heads: 4, ffn: 352, vocab: 256}
data: {train: [{path: )",
                      folder, "/text.txt}]}\n",
                      absl::StrFormat(R"(
train: {steps: %d, sequence: 128, global_batch: 4, micro_batch: 2}
parallel: {data: %d, shard: zero1}
memory: {device: 1GiB}
)",
                                      kSteps, kRanks),
                      "checkpoint: {directory: ", folder, "/checkpoints}\n");
}

absl::StatusOr<StandaloneRequest> MakeRequest(const std::string& folder) {
  std::ofstream text(folder + "/text.txt");
  for (int i = 0; i < 20000; ++i) text << "word " << i * i % 977 << ' ';
  text.close();
  if (!text) return absl::UnavailableError(folder + "/text.txt: cannot be written");
  fs::create_directories(folder + "/checkpoints");
  spec::Problems problems("the built-in job");
  StandaloneRequest request;
  *request.mutable_job() = spec::ReadJob(JobText(folder), {}, problems).job;
  if (!problems.empty()) return problems.ToStatus();
  request.set_task(StandaloneRequest::TASK_RUN);
  request.set_ranks(kRanks);
  request.set_threads_per_rank(ThreadsPerRank(kRanks));
  request.set_job_directory(folder);
  return request;
}

bool Communicates(const std::string& purpose) {
  return purpose == "gather" || purpose == "reduce" || purpose == "pipeline";
}

ArenaFacts ArenasOf(const v1::StepRecord& record) {
  ArenaFacts facts;
  for (const v1::TierMemory& tier : record.memory()) {
    if (!tier.has_locked_bytes()) continue;
    facts.bytes += tier.arena_bytes();
    facts.locked_bytes += tier.locked_bytes();
    facts.huge_bytes += tier.huge_bytes();
    if (tier.has_misplaced_bytes()) {
      facts.misplaced_bytes = facts.misplaced_bytes.value_or(0) + tier.misplaced_bytes();
    }
    if (facts.lacks.empty()) facts.lacks = tier.lacks();
  }
  return facts;
}

void AddStep(const v1::StepRecord& record, OverlapFacts& facts) {
  facts.arenas = ArenasOf(record);
  if (record.step() < kFirstMeasuredStep) return;
  ++facts.steps;
  for (const v1::PurposeSeconds& purpose : record.purposes()) {
    if (!Communicates(purpose.purpose())) continue;
    facts.communication_seconds += purpose.background_seconds();
    facts.exposed_seconds += purpose.exposed_seconds();
  }
}

absl::StatusOr<v1::Finished> RunJob(const std::string& folder, const common::Clock& clock,
                                    double end, OverlapFacts& facts) {
  ASSIGN_OR_RETURN(const std::string worker, FindWorker());
  ASSIGN_OR_RETURN(const StandaloneRequest request, MakeRequest(folder));
  WorkerCallbacks callbacks;
  callbacks.on_event = [&](const v1::StandaloneEvent& event) {
    if (event.has_step()) AddStep(event.step(), facts);
  };
  callbacks.on_signal = [&](int) { facts.interrupted = true; };
  callbacks.go_on = [&] { return clock.Now() < end && !facts.interrupted; };
  return RunWorker(worker, request, callbacks, absl::Seconds(1));
}

}  // namespace

OverlapFacts MeasureOverlap(double most_seconds) {
  OverlapFacts facts;
  facts.cores = UsableCores();
  std::error_code error;
  std::string folder = (fs::temp_directory_path(error) / "strata-doctor-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    facts.problem = absl::StrCat(folder, ": no folder can be made there");
    return facts;
  }
  const absl::Cleanup remover = [&folder] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  };
  const common::MonotonicClock clock{};
  const double end = clock.Now() + most_seconds;
  const absl::StatusOr<v1::Finished> finished = RunJob(folder, clock, end, facts);
  if (!finished.ok()) facts.problem = std::string(finished.status().message());
  if (facts.steps > 0) return facts;  // whether it ended by itself, or when the time was over
  if (finished.ok() && clock.Now() >= end) {
    facts.problem = absl::StrFormat("no %d steps within %.0f s", kFirstMeasuredStep, most_seconds);
  } else if (finished.ok()) {
    facts.problem = finished->message();
  }
  return facts;
}

Finding JudgeOverlap(const OverlapFacts& facts) {
  Finding finding{"overlap", Health::kOk, "", ""};
  if (!facts.problem.empty()) {
    finding.health = Health::kWarning;
    finding.value = absl::StrCat("not measured: ", facts.problem);
    finding.advice = "two ranks of a small job must be able to run here; --quick leaves this out";
    return finding;
  }
  const double all = facts.communication_seconds;
  const double exposed = std::min(facts.exposed_seconds, all);
  finding.value = absl::StrFormat("%.0f %% of %.2g s communication hidden, 2 ranks, %d steps",
                                  all > 0 ? 100 * (1 - exposed / all) : 100, all, facts.steps);
  if (exposed <= kMostExposed * all) return finding;
  finding.health = Health::kWarning;
  finding.advice =
      facts.cores < kRanks
          ? "the ranks share one core, which either computes or communicates: use one rank, or "
            "give this machine more cores"
          : "other programs may have used the cores meanwhile: try again when it is quiet; strata "
            "trace shows a job's steps";
  return finding;
}

Finding JudgeArenas(const ArenaFacts& facts) {
  if (facts.bytes == 0) return {"arena pages", Health::kOk, "not looked at", ""};
  const auto size = [](int64_t bytes) { return common::FormatBytes(static_cast<double>(bytes)); };
  Finding finding{"arena pages", Health::kOk,
                  absl::StrCat("of ", size(facts.bytes), " of a rank: ", size(facts.locked_bytes),
                               " locked, ", size(facts.huge_bytes), " on huge pages"),
                  facts.lacks};
  if (facts.misplaced_bytes.has_value()) {
    absl::StrAppend(&finding.value, ", ", size(*facts.misplaced_bytes), " on another NUMA node");
  }
  if (facts.misplaced_bytes.value_or(0) > 0) {
    absl::StrAppend(&finding.advice, finding.advice.empty() ? "" : "; ",
                    "nodes are full: numactl -H shows what each has; start fewer ranks on one");
  }
  if (!finding.advice.empty()) finding.health = Health::kWarning;
  return finding;
}

}  // namespace strata::client
