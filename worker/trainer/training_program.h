// From a job file to the programs of its ranks.
#ifndef STRATA_WORKER_TRAINER_TRAINING_PROGRAM_H_
#define STRATA_WORKER_TRAINER_TRAINING_PROGRAM_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "data/corpus.h"
#include "model/model_spec.h"
#include "model/optimizer/schedule.h"
#include "program/compose/composer.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::worker {

// Everything that follows from the job and the build, the same on every rank of a stage.
struct TrainingProgram {
  std::string digest;  // of the plan: the same on all ranks
  model::ModelSpec model;
  model::ScheduleSpec schedule;
  int64_t sequence = 0;
  int64_t global_batch = 0;
  program::GroupSizes groups;
  program::Leaves leaves;                 // which samples are whose
  int64_t evaluate_sequences = 0;         // 0: no validation
  program::EvaluateShape evaluate_shape;  // how they are spread over the rows of losses
  int64_t rope_rows = 0;                  // of constant 0
  program::StagePrograms programs;
};

// The corpus of a job's data section.
absl::StatusOr<data::Corpus> OpenJobCorpus(const v1::JobSpec& job);

// Emits, composes and lays out. `threads`: of each rank; `build`: see BuildMark. The job is
// complete: defaults have been filled in. InvalidArgument names the field; Unimplemented: what this
// build cannot train.
absl::StatusOr<TrainingProgram> CompileTraining(const v1::JobSpec& job, const data::Corpus& corpus,
                                                int threads, const std::string& build);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TRAINING_PROGRAM_H_
