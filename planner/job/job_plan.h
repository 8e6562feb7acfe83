// From a job to what its ranks' programs are composed of: trainers compile it, and the memory
// report predicts by it, so that what is predicted is what runs.
#ifndef STRATA_PLANNER_JOB_JOB_PLAN_H_
#define STRATA_PLANNER_JOB_JOB_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "model/model_spec.h"
#include "planner/job/stream_choice.h"
#include "program/compose/composer.h"
#include "program/compose/decode.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::planner {

// What a job's programs depend on beside the job.
struct JobSurroundings {
  int64_t threads = 1;             // of a rank's pool
  int64_t evaluate_sequences = 0;  // of validation data; 0: no evaluation
  program::ScratchBytes scratch;   // of the collective backend
  // What memory.stream: auto is decided by; null: it is left to the composer, which is quicker.
  const program::CostModel* costs = nullptr;
};

struct DecidedJob {
  program::Decision decision;
  program::UpdateEmitter update;
  int64_t parameters = 0;  // of the model
  // Rows of the rotary tables, where a context group does not cut them.
  int64_t rope_table_rows = 0;
  std::optional<StreamChoice> stream;  // what the decision's plan has of it
};

// Whether its ranks compute on devices with memory of their own.
bool OnAccelerator(const v1::JobSpec& job);

// The parallel plan as the job says it. The job is complete: defaults have been filled in.
program::Plan PlanOf(const v1::JobSpec& job);

// Emits the model's layers, and decides. InvalidArgument names the field; Unimplemented: a
// precision that this build does not have.
absl::StatusOr<DecidedJob> DecideJob(const v1::JobSpec& job, const model::ModelSpec& model,
                                     const JobSurroundings& around);

// Of a task that trains nothing: where its parameters live.
program::DecodeOptions StreamingOf(const v1::MemorySpec& memory);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_JOB_JOB_PLAN_H_
