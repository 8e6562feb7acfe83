// A rank of any layout that trains on made-up tokens: steps to be measured.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_TRAINING_RANK_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_TRAINING_RANK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "collectives/communicator.h"
#include "device/cpu_device.h"
#include "device/thread_pool.h"
#include "model/families/families.h"
#include "model/optimizer/number_formats.h"
#include "program/compose/composer.h"
#include "program/ir/program.h"
#include "worker/engine/engine.h"
#include "worker/engine/host_ops.h"

namespace strata::worker {

// Tokens without meaning: a step's time does not depend on them.
class SyntheticHost final : public HostOps {
 public:
  SyntheticHost(int64_t vocab, int64_t tokens) : vocab_(vocab), tokens_(tokens) {}
  absl::Status LoadBatch(const BatchRows& rows) override;
  absl::Status LoadScalars(double* scalars) override;
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

 private:
  const int64_t vocab_;
  const int64_t tokens_;  // of a step, all ranks
  int64_t step_ = 0;
  uint64_t state_ = 1;
};

struct TrainingSpec {
  model::ModelSpec model;
  model::EmitOptions emit;
  model::NumberFormats formats;  // of updates; the plan's are the same
  program::Plan plan;
  int threads = 1;
  device::CpuDeviceOptions device;
};

// What computes instead of the CPU, and who follows it (may be null). Borrowed.
struct OtherDevice {
  Accelerator* accelerator = nullptr;
  IssueObserver* observer = nullptr;
};

// The programs of all stages, laid out.
absl::StatusOr<std::vector<program::StagePrograms>> ComposeTraining(const TrainingSpec& spec);

// Updates take place whatever the norm is: a step without communication, or after one, does the
// same work as any other, though its numbers mean nothing.
class TrainingRank {
 public:
  // The rank of the communicator, which may be null: a world of one. Borrowed, like the pool, which
  // the calling thread has made. On another device than the CPU, for whose kernels the spec is
  // then: rank 0, whose groups are the accelerator's, and parameters that repeat themselves.
  static absl::StatusOr<std::unique_ptr<TrainingRank>> Create(
      const TrainingSpec& spec, collectives::Communicator* communicator, device::ThreadPool* pool,
      const OtherDevice& other = {});

  absl::Status Step() { return engine_->RunStep(0, applied_++); }
  Engine& engine() { return *engine_; }
  // The latest actions, after Drain; see EngineOptions::trace.
  const std::vector<TraceRecord>& trace() const { return trace_; }

 private:
  TrainingRank(const TrainingSpec& spec, size_t trace)
      : host_(spec.model.vocab, spec.plan.global_batch * spec.emit.sequence),
        device_(spec.device),
        trace_(trace) {}

  SyntheticHost host_;
  device::CpuDevice device_;
  std::vector<TraceRecord> trace_;
  int64_t applied_ = 0;
  std::unique_ptr<Engine> engine_;
};

// What stands where nothing was gathered can be denormal numbers, which processors are slow with:
// without communication they are taken for 0, by the calling thread and those it makes.
void FlushDenormals();

double Median(std::vector<double> values);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_TRAINING_RANK_H_
