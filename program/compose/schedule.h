// Pipeline schedules: which pass each stage runs when. Pure; knows no layers and no messages.
//
// A model is cut into P·v virtual stages; virtual stage s is chunk s / P of stage s % P, but for
// the V. Per micro-batch each has a forward, a backward that makes the gradient of its input, and
// the gradient of its weights, which is part of the backward unless the schedule splits them.
//  - GPipe: all forwards, then all backwards (Huang et al., "GPipe: Efficient Training of Giant
//    Neural Networks using Pipeline Parallelism", NeurIPS 2019): v = 1.
//  - 1F1B with a flush per step (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
//    Training", ICML 2021): v = 1.
//  - Interleaved 1F1B (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
//    Clusters Using Megatron-LM", SC 2021, §2.2): groups of P micro-batches cycle through the
//    chunks, so the number of micro-batches must be a multiple of P.
//  - Zero-bubble: forwards and backwards in the order of the above, weight gradients put off into
//    the time in which a stage would wait (Qi et al., "Zero Bubble Pipeline Parallelism",
//    arXiv:2401.10241, ZB-H1), as far as the bound of passes in flight allows.
//  - ZB-V: two chunks per stage, the second half of the model back from the last stage to the first
//    (a V), so that what the last stage computes it passes on to itself and the first stage has the
//    loss (Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362, V-Zero);
//    weight gradients put off as above. Every stage holds at most 2P chunk passes, 1F1B's P whole
//    ones.
//
// Idle time of a step in the units of the durations of one whole stage, F, B, W (backward B + W
// where it is not split): GPipe and 1F1B (P-1)(F+B+W); interleaved that / v; zero-bubble with v = 1
// and W <= F <= B: (P-1)(F+B-W), table 2 of arXiv:2401.10241 for ZB-H1. ZB-V with F = B = W and
// M >= 2P-1: none between a stage's first and last pass, and stage r begins after r forwards of
// chunks. The same paper's ZB-H2 has
// (P-1)(F+B-2W), for twice the memory and updates that begin at another time on each stage.
#ifndef STRATA_PROGRAM_COMPOSE_SCHEDULE_H_
#define STRATA_PROGRAM_COMPOSE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::program {

enum class ScheduleKind : uint8_t { kGpipe, k1F1B, kInterleaved, kZeroBubble, kZbv };

// Of one pass of one virtual stage, in any unit of time.
struct PassDurations {
  int64_t forward = 1;
  int64_t backward_input = 1;
  int64_t backward_weight = 1;

  int64_t sum() const { return forward + backward_input + backward_weight; }
};

// Whether a schedule runs weight gradients as passes of their own.
constexpr bool Splits(ScheduleKind kind) {
  return kind == ScheduleKind::kZeroBubble || kind == ScheduleKind::kZbv;
}

// Where virtual stages are: a stage's chunk, and the stage of one.
constexpr int VirtualStageOf(ScheduleKind kind, int stages, int stage, int chunk) {
  const bool back = kind == ScheduleKind::kZbv && chunk % 2 == 1;
  return chunk * stages + (back ? stages - 1 - stage : stage);
}
constexpr int StageOf(ScheduleKind kind, int stages, int virtual_stage) {
  const int chunk = virtual_stage / stages, at = virtual_stage % stages;
  return kind == ScheduleKind::kZbv && chunk % 2 == 1 ? stages - 1 - at : at;
}

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::k1F1B;
  int stages = 1;          // P
  int virtual_stages = 1;  // v: chunks per stage
  int micro_batches = 1;   // M
  PassDurations durations;
  // Passes of chunks that a stage may hold activations of at once; 0: as many as the order of
  // forwards and backwards asks for. At least (v-1)·P + 1, without which nothing moves; of ZB-V at
  // least 2P, which it takes.
  int in_flight = 0;

  bool split() const { return Splits(kind); }
  int virtual_stage(int stage, int chunk) const {
    return VirtualStageOf(kind, stages, stage, chunk);
  }
};

// kBackward includes the weights' gradients unless the schedule splits them.
enum class PassKind : uint8_t { kForward, kBackward, kBackwardWeight };

struct ScheduledPass {
  PassKind kind = PassKind::kForward;
  int chunk = 0;
  int micro_batch = 0;
  int64_t begin = 0, end = 0;
};

struct Schedule {
  std::vector<std::vector<ScheduledPass>> stages;  // in order of time
  int64_t makespan = 0;
};

// Messages cost nothing here. InvalidArgument: sizes below 1, chunks where the schedule has none or
// a number of its own, interleaving with M no multiple of P, too low a bound of passes in flight.
absl::StatusOr<Schedule> BuildSchedule(const ScheduleOptions& options);

// Most chunk passes that a stage holds between a forward's begin and the end of the backward
// (split: of the weights' gradient).
int InFlightBound(const ScheduleOptions& options, int stage);

// Time of a step in which a stage does nothing.
inline int64_t Bubble(const ScheduleOptions& options, const Schedule& schedule) {
  return schedule.makespan - static_cast<int64_t>(options.micro_batches) * options.virtual_stages *
                                 options.durations.sum();
}

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SCHEDULE_H_
