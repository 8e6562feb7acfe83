// A small Llama-style model and a text that it can learn, for tests of whole steps.
#ifndef STRATA_WORKER_ENGINE_SMALL_MODEL_H_
#define STRATA_WORKER_ENGINE_SMALL_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "model/families/families.h"
#include "program/compose/plan.h"
#include "worker/engine/engine.h"
#include "worker/engine/host_ops.h"

namespace strata::worker {

inline constexpr int64_t kSmallBatch = 8, kSmallSequence = 12;

model::ModelSpec SmallModel();
model::EmitOptions SmallEmission();

// A text that can be learned: each token follows from the one before it.
int32_t TokenAt(int64_t sample, int64_t position);

// Step `step` reads the next kSmallBatch samples, a rank those of its leaves.
class TextHost final : public HostOps {
 public:
  TextHost(int data_index, const program::Leaves& leaves)
      : data_index_(data_index), leaves_(leaves) {}
  absl::Status LoadBatch(const BatchRows& rows) override;
  absl::Status LoadScalars(double* scalars) override;
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int64_t step = 1;
  int64_t applied = -1;                 // updates; -1: all of the steps before
  std::vector<int64_t> overflow_steps;  // whose gradients are infinite
  double loss_scale = 0;                // 0: losses are not scaled
  double rate_growth = 0;               // of the learning rate, from step to step

 private:
  const int data_index_;
  const program::Leaves leaves_;
};

absl::Span<float> FloatsOf(const Engine& engine, int slot, int64_t applied);
// Fills the table of rotary angles.
void FillSmallRope(const Engine& engine, int slot);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_SMALL_MODEL_H_
