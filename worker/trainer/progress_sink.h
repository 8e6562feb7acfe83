// Writes what the engine is at into the progress file, by instruction.
#ifndef STRATA_WORKER_TRAINER_PROGRESS_SINK_H_
#define STRATA_WORKER_TRAINER_PROGRESS_SINK_H_

#include <cstdint>
#include <vector>

#include "program/ir/program.h"
#include "worker/engine/step_metrics.h"
#include "worker/shared/progress_writer.h"

namespace strata::worker {

class FileProgressSink final : public ProgressSink {
 public:
  // Writes the labels of the set's instructions. `writer` is borrowed.
  FileProgressSink(const program::ProgramSet& set, ProgressWriter* writer);

  void Begin(program::Stream stream, int program, int action) override;
  void End(program::Stream stream, int program, int action) override;

  // Labels that a set needs in the progress file.
  static uint32_t LabelsOf(const program::ProgramSet& set);

 private:
  ProgressWriter* const writer_;
  struct Action {
    int32_t instruction = 0;
    ProgressOperation operation;
  };
  std::vector<std::vector<Action>> actions_;  // [program]
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_PROGRESS_SINK_H_
