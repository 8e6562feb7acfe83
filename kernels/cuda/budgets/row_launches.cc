#include "kernels/cuda/activation.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/budgets/ledger.h"
#include "kernels/cuda/cross_entropy.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/headnorm.h"
#include "kernels/cuda/layernorm.h"
#include "kernels/cuda/move_blocks.h"
#include "kernels/cuda/positions.h"
#include "kernels/cuda/rmsnorm.h"
#include "kernels/cuda/rope.h"

namespace strata::kernels::cuda {
namespace {

constexpr double kAll = double{kTokens} * kChannels, kF32 = sizeof(float);

template <typename T>
void AddNorms(const Ledger& l) {
  T* const x = l.At<T>();
  float* const f = l.At<float>();
  constexpr double kT = sizeof(T);
  const char* const type = TypeName<T>();
  const RmsNormShape rms{.rows = kTokens, .channels = kChannels};
  l.Add("RmsNormForward", type, {2 * kT * kAll, 4 * kAll},
        RmsNormForward<T>(nullptr, rms, 1e-5F, x, x, x, f));
  l.Add("AddRmsNormForward", type, {4 * kT * kAll, 5 * kAll},
        AddRmsNormForward<T>(nullptr, rms, 1e-5F, x, x, x, x, x, f));
  l.Add("RmsNormReplay", type, {2 * kT * kAll, 2 * kAll},
        RmsNormReplay<T>(nullptr, rms, x, x, f, x));
  l.Add("RmsNormBackward", type, {4 * kT * kAll, 9 * kAll},
        RmsNormBackward<T>(nullptr, rms, x, x, x, f, true, x, f, f));
  const LayerNormShape layer{.rows = kTokens, .channels = kChannels};
  l.Add("LayerNormForward", type, {2 * kT * kAll, 7 * kAll},
        LayerNormForward<T>(nullptr, layer, 1e-5F, x, x, x, x, f));
  l.Add("AddLayerNormForward", type, {4 * kT * kAll, 8 * kAll},
        AddLayerNormForward<T>(nullptr, layer, 1e-5F, x, x, x, x, x, x, f));
  l.Add("LayerNormReplay", type, {2 * kT * kAll, 4 * kAll},
        LayerNormReplay<T>(nullptr, layer, x, x, x, f, x));
  l.Add("LayerNormBackward", type, {4 * kT * kAll, 12 * kAll},
        LayerNormBackward<T>(nullptr, layer, x, x, x, f, true, x, f, f, f));
  const HeadNormShape head{
      .rows = kTokens, .heads = kHeads, .kv_heads = kKvHeads, .head_size = kHead};
  constexpr double kNormed = double{kTokens} * (kHeads + kKvHeads) * kHead;
  l.Add("HeadNormForward", type, {2 * kT * kNormed, 4 * kNormed},
        HeadNormForward<T>(nullptr, head, 1e-5F, x, x, x, x, f));
  l.Add("HeadNormReplay", type, {2 * kT * kNormed, 2 * kNormed},
        HeadNormReplay<T>(nullptr, head, x, x, x, f, x));
  l.Add("HeadNormBackward", type, {3 * kT * kNormed, 9 * kNormed},
        HeadNormBackward<T>(nullptr, head, x, x, x, x, f, x, f, f, f));
}

template <typename T>
void AddFeedForward(const Ledger& l) {
  T* const x = l.At<T>();
  float* const f = l.At<float>();
  constexpr double kT = sizeof(T), kWide = double{kTokens} * kFfn;
  const char* const type = TypeName<T>();
  constexpr int64_t kCount = kTokens * kFfn;
  l.Add("ActivationForward", type, {2 * kT * kWide, 8 * kWide},
        ActivationForward<T>(nullptr, kCount, Function::kGeluTanh, x, x));
  l.Add("ActivationBackward", type, {3 * kT * kWide, 14 * kWide},
        ActivationBackward<T>(nullptr, kCount, Function::kGeluTanh, x, x, x));
  l.Add("GatedForward", type, {3 * kT * kWide, 6 * kWide},
        GatedForward<T>(nullptr, kTokens, kFfn, Function::kSilu, x, x));
  l.Add("GatedBackward", type, {5 * kT * kWide, 12 * kWide},
        GatedBackward<T>(nullptr, kTokens, kFfn, Function::kSilu, x, x, x));
  l.Add("AddBias", type, {2 * kT * kAll, kAll}, AddBias<T>(nullptr, kTokens, kChannels, x, x));
  l.Add("BiasGradient", type, {kT * kAll, kAll},
        BiasGradient<T>(nullptr, kTokens, kChannels, x, f, f));
}

template <typename T>
void AddPlaces(const Ledger& l) {
  T* const x = l.At<T>();
  float* const f = l.At<float>();
  int32_t* const tokens = l.At<int32_t>();
  constexpr double kT = sizeof(T);
  const char* const type = TypeName<T>();
  const EmbeddingShape embedding{.rows = kTokens, .channels = kChannels, .count = kVocabulary};
  l.Add("EmbeddingForward", type, {2 * kT * kAll, kAll},
        EmbeddingForward<T>(nullptr, embedding, tokens, x, x));
  l.Add("EmbeddingBackward", type, {(kT + 2 * kF32) * kAll, 2 * kAll},
        EmbeddingBackward<T>(nullptr, embedding, tokens, x, f));
  const PositionsShape positions{
      .rows = kTokens, .sequence = kSequence, .channels = kChannels, .context = kSequence};
  l.Add("AddPositions", type, {2 * kT * kAll + kT * kAll / kBatch, kAll},
        AddPositions<T>(nullptr, positions, x, nullptr, x));
  l.Add("PositionsGradient", type, {kT * kAll + 2 * kF32 * kAll / kBatch, kAll},
        PositionsGradient<T>(nullptr, positions, x, nullptr, f));
  constexpr double kTurned = double{kTokens} * (kHeads + kKvHeads) * kHead;
  const RopeShape rope{.rows = kTokens,
                       .sequence = kSequence,
                       .heads = kHeads,
                       .kv_heads = kKvHeads,
                       .head_size = kHead};
  l.Add("RopeApply", type, {2 * kT * kTurned, 3 * kTurned},
        RopeApply<T>(nullptr, rope, f, nullptr, false, x));
  const BlockMove move{.blocks = 2,
                       .rows = kTokens,
                       .width = kKvHeads * kHead,
                       .from_block = kKvHeads * kHead,
                       .from_row = kQkv,
                       .to_block = kTokens * kKvHeads * kHead,
                       .to_row = kKvHeads * kHead};
  l.Add("MoveBlocks", type, {2 * kT * 2 * kTokens * kKvHeads * kHead, 0},
        MoveBlocks<T>(nullptr, move, false, x, x));
}

template <typename T>
void AddLosses(const Ledger& l) {
  T* const logits = l.At<T>();
  float* const f = l.At<float>();
  double* const d = l.At<double>();
  int32_t* const tokens = l.At<int32_t>();
  constexpr double kT = sizeof(T), kLogits = double{kTokens} * kVocabulary;
  constexpr int64_t kRanks = 8;
  const char* const type = TypeName<T>();
  const LossShape shape{.rows = kTokens, .vocab = kVocabulary};
  constexpr int kTimes = sizeof(T) == 2 ? 2 : 3;  // f32's rows are too long to be read once
  l.Add("CrossEntropyForwardBackward", type, {kTimes * kT * kLogits, 8 * kLogits},
        CrossEntropyForwardBackward<T>(nullptr, shape, d, tokens, logits, f));
  l.Add("CrossEntropyForward", type, {kT * kLogits, 4 * kLogits},
        CrossEntropyForward<T>(nullptr, shape, tokens, logits, f));
  constexpr int64_t kShort = 50304;  // GPT-2's
  constexpr double kShortLogits = double{kTokens} * kShort;
  const LossShape of_short{.rows = kTokens, .vocab = kShort};
  l.Add("CrossEntropyForwardBackward of 50,304", type, {2 * kT * kShortLogits, 8 * kShortLogits},
        CrossEntropyForwardBackward<T>(nullptr, of_short, d, tokens, logits, f));
  l.Add("CrossEntropyForward of 50,304", type, {kT * kShortLogits, 4 * kShortLogits},
        CrossEntropyForward<T>(nullptr, of_short, tokens, logits, f));
  const VocabularyPart part{.rows = kTokens, .columns = kVocabulary / kRanks};
  l.Add("CrossEntropyStatistics of 1/8", type, {kT * kLogits / kRanks, 4 * kLogits / kRanks},
        CrossEntropyStatistics<T>(nullptr, part, tokens, logits, f));
  l.Add("CrossEntropyFinish of 1/8", type, {2 * kT * kLogits / kRanks, 4 * kLogits / kRanks},
        CrossEntropyFinish<T>(nullptr, part, kRanks, d, tokens, f, logits, d));
}

template <typename T>
void AddOf(const Ledger& ledger) {
  AddNorms<T>(ledger);
  AddFeedForward<T>(ledger);
  AddPlaces<T>(ledger);
  AddLosses<T>(ledger);
}

}  // namespace

void AddRowOperations(const Ledger& ledger) {
  AddOf<float>(ledger);
  AddOf<BFloat16>(ledger);
  AddOf<Float16>(ledger);
}

}  // namespace strata::kernels::cuda
