// What `auto` in a job file stands for: of the layouts that are legal, the one whose programs the
// timeline predicts to be fastest among those that fit.
#ifndef STRATA_PLANNER_SEARCH_AUTO_LAYOUT_H_
#define STRATA_PLANNER_SEARCH_AUTO_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/plan_family.h"
#include "planner/search/explain.h"
#include "planner/search/rank_room.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// Whether it leaves parallel, train.micro_batch or memory to be decided.
bool LeavesToDecide(const v1::JobSpec& job);

// A key of `parallel` beside degrees and sharding that every layout keeps, as a job file writes it:
// {"recompute", "full"}.
struct KeptKey {
  std::string key, value;
  // The degree that it goes with ("pipeline", "context"): layouts without one go without it.
  std::string with = {};
};

struct AutoRequest {
  const v1::JobSpec* job = nullptr;  // with the autos, its defaults filled in
  bool micro_batch_given = false;    // by whoever wrote it: it stays, whatever the layout
  std::vector<KeptKey> kept = {};
  // The job with settings (as --set has them) added to what it says; nothing: it cannot be, which
  // makes the layout illegal.
  std::function<absl::StatusOr<v1::JobSpec>(const std::vector<std::string>& settings)> read;
  const program::CostModel* costs = nullptr;
  int64_t threads = 1;             // of a rank
  int64_t evaluate_sequences = 0;  // of validation data
  int64_t memory_bytes = 0;        // of the machine, for all ranks; 0: not known
  RankRoom room = {};              // of each rank, on nodes of a cluster
  std::string device = "cpu";      // kind
  LearnedFamilies learned = {};    // what steps of earlier jobs took beside what was predicted
  // Told after each layout: how many were looked at, of how many that are known of by then.
  std::function<void(int64_t looked_at, int64_t of)> on_progress = nullptr;
  std::function<bool()> gives_up = nullptr;  // asked before each layout: nobody waits any longer
};

struct Candidate {
  std::vector<std::string> settings;  // "parallel={data: 2, shard: zero1}", "train.micro_batch=4"
  JobWords words;
  double seconds = 0;  // of a step: of the slowest rank, as predicted and then corrected
  std::optional<Correction> correction = {};
  // Its parts: "compute", what compute waits for, by purpose, and "correction".
  std::vector<std::pair<std::string, double>> terms;
  int64_t bytes = 0;  // of all ranks together
  // Of the fullest rank: of a CPU rank all is the host's; of an accelerator's the device has what
  // the runtime takes, too.
  int64_t rank_host = 0, rank_device = 0;
  int64_t rank_arena = 0;  // what programs hold where kernels compute, of the fullest rank
  bool has_room = true;    // on nodes: what AutoRequest.room has
  bool fits = true;        // that, limits of the job, and memory_bytes
  double excess = 0;  // how many times a limit it needs, of the one it exceeds most; 0: it fits
  std::string lacks;  // else what does not: "needs 9.00 GiB of a device, and memory.device is …"
};

// Layouts that fit, after which no more of a kind are composed where the closed form knows the
// devices and tells which are fast; of those that do not fit, too, at most twice as many.
inline constexpr int kFinalists = 24;

// Fastest first, then those that do not fit, least excess first, those without room last; not
// empty. The same request has the same answer. InvalidArgument: no layout is legal, with the first
// reason; Unimplemented: more than kMostAutoRanks ranks; DeadlineExceeded: given up.
absl::StatusOr<std::vector<Candidate>> RankLayouts(const AutoRequest& request);

// Of one without room: "data 2, shard zero3 needs 24.00 GiB of a device, and n3 has 16.00 GiB".
std::string WhyNoRoom(const Candidate& candidate, const RankRoom& room);

inline constexpr int64_t kMostAutoRanks = 64;

// What a CPU rank usually does, where its machine was not measured.
program::Rates UsualRates(int64_t threads);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_SEARCH_AUTO_LAYOUT_H_
