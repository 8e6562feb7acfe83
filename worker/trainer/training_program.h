// From a job file to the programs of its ranks.
#ifndef STRATA_WORKER_TRAINER_TRAINING_PROGRAM_H_
#define STRATA_WORKER_TRAINER_TRAINING_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/corpus.h"
#include "model/model_spec.h"
#include "model/optimizer/schedule.h"
#include "planner/job/stream_choice.h"
#include "program/compose/composer.h"
#include "program/ir/context_rows.h"
#include "program/ir/mesh.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// Everything that follows from the job, the order of its ranks and the build, the same on every
// rank of a stage.
struct TrainingProgram {
  std::string digest;  // of the plan: the same on all ranks
  model::ModelSpec model;
  model::ScheduleSpec schedule;
  int64_t sequence = 0;
  int64_t global_batch = 0;
  program::Mesh mesh;
  int64_t parameters = 0;                       // of the model
  bool loss_scaling = false;                    // dynamic
  std::optional<planner::StreamChoice> stream;  // where the job leaves it open
  program::Leaves leaves;                       // which samples are whose
  int64_t evaluate_sequences = 0;               // 0: no validation
  program::EvaluateShape evaluate_shape;        // how they are spread over the rows of losses
  // Of each sequence the rows that the rank has, and the positions of the constants' rows.
  std::vector<program::ContextRun> own_rows, constant_rows;
  std::vector<program::Constant> constants;
  program::StagePrograms programs;  // of the rank's stage
};

// The corpus of a job's data section.
absl::StatusOr<data::Corpus> OpenJobCorpus(const v1::JobSpec& job);

// Emits, composes and lays out what the task's rank runs. `build`: see BuildMark. The job is
// complete: defaults have been filled in. InvalidArgument names the field; Unimplemented: what this
// build cannot train.
absl::StatusOr<TrainingProgram> CompileTraining(const v1::TrainerTask& task,
                                                const data::Corpus& corpus,
                                                const std::string& build);
// The programs of all stages, for what one of them cannot tell: what each needs, and whether they
// go together.
absl::StatusOr<std::vector<program::StagePrograms>> CompileStages(const v1::TrainerTask& task,
                                                                  const data::Corpus& corpus,
                                                                  const std::string& build);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_TRAINING_PROGRAM_H_
