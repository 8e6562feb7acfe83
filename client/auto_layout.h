// What `auto` in a job file stands for: of the layouts that are legal, the one whose programs the
// timeline predicts to be fastest among those that fit.
#ifndef STRATA_CLIENT_AUTO_LAYOUT_H_
#define STRATA_CLIENT_AUTO_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "planner/search/explain.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/job.pb.h"
#include "spec/job_file.h"

namespace strata::client {

// Whether it leaves parallel, train.micro_batch or memory to be decided.
bool LeavesToDecide(const v1::JobSpec& job);

struct AutoRequest {
  const spec::JobFile* file = nullptr;  // with the autos
  // The job with settings added to what was typed; nothing: it cannot be, which makes the layout
  // illegal.
  std::function<absl::StatusOr<v1::JobSpec>(const std::vector<std::string>& settings)> read;
  const program::CostModel* costs = nullptr;
  int64_t threads = 1;             // of a rank
  int64_t evaluate_sequences = 0;  // of validation data
  int64_t memory_bytes = 0;        // of all ranks together; 0: not known
};

struct Candidate {
  std::vector<std::string> settings;  // "parallel={data: 2, shard: zero1}", "train.micro_batch=4"
  planner::JobWords words;
  double seconds = 0;  // of a step, predicted: of the slowest rank
  // Its parts: "compute", and what compute waits for, by purpose.
  std::vector<std::pair<std::string, double>> terms;
  int64_t bytes = 0;  // of all ranks together
  bool fits = true;
};

// Fastest first, then those that do not fit, least memory first; not empty. The same request has
// the same answer. InvalidArgument: no layout is legal, with the first reason; Unimplemented: more
// than kMostAutoRanks ranks.
absl::StatusOr<std::vector<Candidate>> RankLayouts(const AutoRequest& request);

inline constexpr int64_t kMostAutoRanks = 64;

}  // namespace strata::client

#endif  // STRATA_CLIENT_AUTO_LAYOUT_H_
