// Job files that say `auto`, decided with what this machine was measured to take.
#ifndef STRATA_CLIENT_DECIDE_LAYOUT_H_
#define STRATA_CLIENT_DECIDE_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "planner/plan_family.h"
#include "planner/search/auto_layout.h"
#include "spec/job_file.h"

namespace strata::client {

// What a decision goes by beside the job.
struct DecisionBasis {
  int64_t memory_bytes = 0;  // of all ranks together; 0: not known
  std::string profile = {};  // --profile; empty: the user's
  // What the cluster has learned of plans; asked only where something is to be decided. Null: there
  // is none.
  std::function<planner::LearnedFamilies()> learned = nullptr;
  // What ranks may have of the nodes that the job is submitted to. Null: it runs on this machine,
  // which has memory_bytes.
  planner::AskRoom room = nullptr;
  // Told what it is doing, one line, while it takes longer than a second. Null: nobody listens.
  std::function<void(const std::string& line)> say = nullptr;
  const common::Clock* clock = nullptr;  // that tells how long; null: the machine's
};

struct RankedLayouts {
  std::vector<planner::Candidate> candidates;  // fastest first; none: see why_none
  planner::RankRoom room;                      // that they were judged by
  std::string notice;  // what of the times is not this machine's, and why; empty: nothing
  absl::Status
      why_none;  // RankLayouts' error: no layout is legal, or there are too many to look at
};

// `file`: with its autos, without problems. `read`: see planner::AutoRequest. InvalidArgument: a
// profile that is named cannot be read.
using ReadWith = std::function<absl::StatusOr<v1::JobSpec>(const std::vector<std::string>&)>;
absl::StatusOr<RankedLayouts> RankHere(const spec::JobFile& file, const ReadWith& read,
                                       const DecisionBasis& basis,
                                       const std::vector<planner::KeptKey>& kept = {});

// What a file with degrees says of its layout beside them and its sharding: virtual_shards,
// recompute, schedules, orders.
std::vector<planner::KeptKey> KeptOf(const spec::JobFile& file);

// What was chosen and why, one line each. `ranked` has candidates.
std::vector<std::string> NoticesOf(const RankedLayouts& ranked);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DECIDE_LAYOUT_H_
