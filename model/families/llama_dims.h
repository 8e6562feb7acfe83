// Sizes of one rank's part of a Llama-style model, and the templates of its layers. Internal to
// families/llama.
#ifndef STRATA_MODEL_FAMILIES_LLAMA_DIMS_H_
#define STRATA_MODEL_FAMILIES_LLAMA_DIMS_H_

#include <cstdint>
#include <vector>

#include "model/emit/ops.h"
#include "model/emit/row_split.h"
#include "model/families/llama.h"
#include "model/model_spec.h"
#include "program/ir/parameter_set.h"
#include "program/ir/scalars.h"
#include "program/ir/template.h"

namespace strata::model {

// What a template is for.
enum class Pass : uint8_t { kForward, kEvaluate, kPrefill, kDecode };

struct LlamaDims {
  ModelSpec spec;
  EmitOptions options;
  int64_t degree = 1;       // t
  int64_t hidden = 0;       // C
  int64_t qkv = 0;          // (H + 2K)·D / t
  int64_t attention = 0;    // H·D / t
  int64_t ffn = 0;          // F / t
  int64_t vocab = 0;        // V / t
  int64_t cache_half = 0;   // bytes of a layer's keys, or values, padded to whole cache lines
  int64_t table_bytes = 0;  // of the rotary table

  bool decodes(Pass pass) const { return pass == Pass::kPrefill || pass == Pass::kDecode; }
  int64_t batch(Pass pass) const { return decodes(pass) ? 1 : options.micro_batch; }
  int64_t sequence(Pass pass) const {
    if (pass == Pass::kPrefill) return options.prefill_chunk;
    return pass == Pass::kDecode ? 1 : options.sequence;
  }
  int64_t rows(Pass pass) const { return batch(pass) * sequence(pass); }
  RowSplit split(Pass pass) const {
    return {rows(pass), degree, degree == 1 ? 1 : options.tensor_chunks};
  }
  AttentionShape attention_shape(Pass pass) const {
    return {batch(pass), sequence(pass), spec.heads / degree, spec.kv_heads / degree,
            spec.head_size};
  }
  VocabularyShape vocabulary(int64_t rows) const {
    return {rows, vocab, hidden, degree == 1 ? program::Group::kNone : program::Group::kTensor,
            degree};
  }
};

LlamaDims MakeDims(const ModelSpec& spec, const EmitOptions& options);

// The sets of one block, in the order of Layer::sets.
std::vector<program::ParameterSet> BlockSets(const LlamaDims& dims, int64_t layer);
program::ParameterSet TableSet(const LlamaDims& dims, const char* set, const char* tensor);
program::ParameterSet FinalNormSet(const LlamaDims& dims);

program::Template EmitBlock(const LlamaDims& dims, Pass pass);
program::Template EmitBlockBackward(const LlamaDims& dims);
program::Template EmitBlockBackwardInput(const LlamaDims& dims);
program::Template EmitBlockBackwardWeight(const LlamaDims& dims);

program::Template EmitEmbedding(const LlamaDims& dims, Pass pass);
// `gradient`: kGradientStream or kOutputGradient.
program::Template EmitEmbeddingBackward(const LlamaDims& dims, program::Role gradient);

// Loss and gradients, or the loss alone.
program::Template EmitHead(const LlamaDims& dims, bool gradients);
program::Template EmitHeadLogits(const LlamaDims& dims, Pass pass);

}  // namespace strata::model

#endif  // STRATA_MODEL_FAMILIES_LLAMA_DIMS_H_
