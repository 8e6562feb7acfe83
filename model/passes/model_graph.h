// A model as layers of graphs, and what is asked of the templates made of them.
#ifndef STRATA_MODEL_PASSES_MODEL_GRAPH_H_
#define STRATA_MODEL_PASSES_MODEL_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/graph/graph.h"
#include "model/passes/recompute.h"
#include "ops/backend.h"
#include "program/ir/context_rows.h"

namespace strata::model {

// Adapters (lora.h); rank 0: none.
struct LoraOptions {
  int64_t rank = 0;
  double alpha = 0;
  std::vector<std::string> targets;  // modules by name, from a dot on, or "all-linear"
  // What the blocks' frozen matrices are kept in (QLoRA): kInt8, kNf4 or kNf4F32.
  std::optional<program::DType> quantised;
};

struct EmitOptions {
  program::DType type = program::DType::kF32;  // that models compute in: f32, bf16 or f16
  int64_t micro_batch = 1;                     // B
  int64_t sequence = 1;                        // T, at most the model's context
  // Rows of logits that exist at once; 0: as many as make 16 MiB, but at least 256, on CUDA 2048
  // (fewer, and the table's gradient, read and written once per chunk, would bound the head). With
  // tensor_degree > 1 never more than a chunk of the group's rows.
  int64_t head_chunk_rows = 0;
  int64_t prefill_chunk = 64;  // rows of a prefill pass, or the context; 0: no decoding templates
  int64_t tensor_degree = 1;   // t
  int64_t tensor_chunks = 4;   // into which collectives of the tensor group are cut
  // Ranks of the context group, of which each has some rows of every sequence
  // (program/ir/context_rows.h), and how they exchange keys and values.
  int64_t context_ranks = 1;
  program::ContextMethod context_method = program::ContextMethod::kRing;
  bool documents = false;  // several in a sequence, attention inside each; no decoding templates
  bool split_backward = false;  // also backward_input and backward_weight
  // Whose kernels compute, and the threads of a rank's pool at most: workspaces are sized for them.
  ops::BackendKind backend = ops::BackendKind::kCpu;
  int64_t threads = 1;
  int64_t set_alignment = 16;  // ParameterSet::alignment
  int64_t set_ranges = 1;      // equal ranges that sets are padded to; see FlattenSet
  RecomputePlan recompute;
  // Names of tensors (whole ones, or parts of fused ones) that do not train; '*' stands for any
  // characters. All parts of a fused tensor or none.
  std::vector<std::string> frozen;
  // With a rank, adapters alone train, and `frozen` must be empty.
  LoraOptions lora;
};

struct ModelLayer {
  std::string name;    // of the layer and its sets: "layers.3"
  std::string prefix;  // of its tensors' names: "model.layers.3."
  int graph = 0;
  int64_t block = -1;  // its number among blocks; -1: the first or last layer of a model
};

// A constant of the model: what FillConstant (model/rope_table.h) fills.
struct ModelConstant {
  std::string name;
  int64_t row_bytes = 0;
  bool per_row =
      false;  // of a pass's N rows; else of the positions that rotary tables are made for
};

struct ModelGraph {
  std::vector<Graph> graphs;  // forwards, one per kind of layer
  std::vector<ModelLayer> layers;
  std::vector<ModelConstant> constants;  // by the index that nodes know them by
};

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_MODEL_GRAPH_H_
