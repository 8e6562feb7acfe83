#include "worker/engine/small_model.h"

#include <algorithm>
#include <limits>

#include "model/rope_table.h"

namespace strata::worker {

using program::Scalar;

model::ModelSpec SmallModel() {
  return {.layers = 2,
          .hidden = 24,
          .heads = 4,
          .kv_heads = 2,
          .head_size = 6,
          .ffn = 40,
          .vocab = 29,
          .context = 32,
          .tied_embeddings = true,
          .initial_std = 0.1};
}

model::EmitOptions SmallEmission() {
  return {.micro_batch = 1, .sequence = kSmallSequence, .prefill_chunk = 8, .threads = 2};
}

int32_t TokenAt(int64_t sample, int64_t position) {
  int64_t token = sample % 29;
  for (int64_t i = 0; i < position; ++i) token = (token * 3 + 1) % 29;
  return static_cast<int32_t>(token);
}

absl::Status TextHost::LoadBatch(const BatchRows& rows) {
  const int64_t sequence = rows.sequence;
  for (int64_t i = 0; i < rows.samples * sequence; ++i) {
    const int64_t of_leaf = kSmallBatch / leaves_.count, at = i / sequence, position = i % sequence;
    const int64_t row = leaves_.Of(data_index_, at / of_leaf) * of_leaf + at % of_leaf;
    const int64_t sample = step * kSmallBatch + row;
    rows.tokens[i] = TokenAt(sample, position);
    rows.targets[i] = (row * sequence + position) % 5 == 4 ? -1 : TokenAt(sample, position + 1);
  }
  return absl::OkStatus();
}

absl::Status TextHost::LoadScalars(double* scalars) {
  scalars[static_cast<int>(Scalar::kStep)] = static_cast<double>(step);
  scalars[static_cast<int>(Scalar::kApplied)] =
      static_cast<double>(applied >= 0 ? applied : step - 1);
  scalars[static_cast<int>(Scalar::kLearningRate)] =
      0.01 + rate_growth * static_cast<double>(step - 1);
  scalars[static_cast<int>(Scalar::kInverseTokens)] =
      std::count(overflow_steps.begin(), overflow_steps.end(), step) > 0
          ? std::numeric_limits<double>::infinity()
          : (loss_scale > 0 ? loss_scale : 1) / (kSmallBatch * kSmallSequence);
  if (loss_scale > 0) scalars[static_cast<int>(Scalar::kLossScale)] = loss_scale;
  return absl::OkStatus();
}

absl::Span<float> FloatsOf(const Engine& engine, int slot, int64_t applied) {
  const absl::Span<std::byte> bytes = engine.SlotBytes(slot, 0, applied);
  return absl::MakeSpan(reinterpret_cast<float*>(bytes.data()), bytes.size() / 4);
}

void FillSmallRope(const Engine& engine, int slot) {
  const model::ModelSpec spec = SmallModel();
  model::FillConstant(spec, model::kRopeTable,
                      {{.count = model::RopeTableRows(spec, SmallEmission())}}, 0,
                      engine.SlotBytes(slot, 0, 0));
}

}  // namespace strata::worker
