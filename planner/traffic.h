// What one optimizer step sends between the ranks of a layout: bytes on the edges of each group.
//
// The model: every group talks along a fixed pattern of directed edges between neighbours in
// coordinate order. Placement counts each edge's bytes once, at the nearest common level of its two
// ends. Pure.
#ifndef STRATA_PLANNER_TRAFFIC_H_
#define STRATA_PLANNER_TRAFFIC_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// The dimensions of a layout. kData is the whole data dimension or, with parallel.shard_group, the
// index inside a shard group, kReplicate then the index of the group: data = replicate · S + shard.
enum class Dimension { kTensor, kContext, kExpert, kPipeline, kData, kReplicate };
inline constexpr int kDimensions = 6;
inline constexpr std::array<Dimension, kDimensions> kAllDimensions = {
    Dimension::kTensor,   Dimension::kContext, Dimension::kExpert,
    Dimension::kPipeline, Dimension::kData,    Dimension::kReplicate};
// "tensor", …, "data", "replicate".
const char* NameOf(Dimension dimension);

using Degrees = std::array<int64_t, kDimensions>;  // each at least 1

// Of one group, per step. Every rank sends `next_bytes` to its successor and `previous_bytes` to
// its predecessor; in a closed pattern the last one's successor is the first. kPairs: every rank
// sends `next_bytes` to each other rank (all-to-all).
struct EdgeTraffic {
  enum class Pattern { kLine, kRing, kPairs };
  Pattern pattern = Pattern::kRing;
  double next_bytes = 0;
  double previous_bytes = 0;
  // kRing: what the edges between the last rank and the first carry, as a share of the others'.
  double closing = 1;
  double messages = 0;  // per edge, for latencies
  // Of the time this takes, the part that computation does not hide, in [0, 1].
  double exposed = 1;
};
using Traffic = std::array<EdgeTraffic, kDimensions>;  // groups of one rank send nothing

// Degrees that the job asks for; resources and `parallel: auto` are not looked at. InvalidArgument
// when shard_group does not divide data.
absl::StatusOr<Degrees> DegreesOf(const v1::ParallelSpec& parallel);

// Formulas at the definition. `job` has its defaults, `model` the sizes of its model.
Traffic TrafficOf(const model::ModelSpec& model, const v1::JobSpec& job, const Degrees& degrees);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_TRAFFIC_H_
