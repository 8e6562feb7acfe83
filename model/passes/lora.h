// The adapters pass: beside frozen products y = W · x of low rank ones that train (Hu et al.,
// "LoRA", 2021): y = W · x + alpha / rank · B · A · x, A [rank, in], B [out, rank].
//
// Whoever names a target names a module of Hugging Face (adapter_names.h). Of a fused product each
// module has its own adapter; a tensor that is packed in the files (GPT-2's c_attn, Phi-3's
// qkv_proj) is one module. The adapters of one product are fused too: A's are rows of one matrix,
// so that x is read once.
//
// In a tensor group h = A · x exists by rows: beside a column-parallel product (W cut by rows) each
// rank makes h of its own rows of x, gathers h and adds its rows of B; beside a row-parallel one A
// is cut by columns, h is reduced and scattered, and B is added to the rank's rows of y. So only
// values as wide as the rank travel. Tensors that are cut are the set ".adapters" behind the
// layer's name, the others, whose gradients are partial over the group, ".whole_adapters".
//
// Quantised, the matrices of blocks are kept in NF4 (Dettmers et al., "QLoRA", 2023) or in 8 bits
// with a scale per row, in the set ".quantised" behind the layer's name, and dequantised right
// before each use.
//
// A begins uniform in ±1/√in, as PEFT does it (kaiming_uniform with a = √5), B with zeros.
#ifndef STRATA_MODEL_PASSES_LORA_H_
#define STRATA_MODEL_PASSES_LORA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/graph/graph.h"
#include "model/passes/model_graph.h"

namespace strata::model {

// Whether one of the targets names the module: whole, from a dot on, or "all-linear".
bool IsTarget(const std::string& module, const std::vector<std::string>& targets);

// Last words of the modules of a model's blocks that can have adapters, in order, each once.
std::vector<std::string> TargetNames(const ModelGraph& model);

// InvalidArgument, naming the field: a rank that is not positive, a target that names no module of
// a block.
absl::Status CheckLora(const ModelGraph& model, const LoraOptions& lora);

// The layer's forward with adapters at the targets, all else frozen, and quantised where asked for.
Graph AddAdapters(const Graph& graph, const ModelLayer& layer, const LoraOptions& lora);

}  // namespace strata::model

#endif  // STRATA_MODEL_PASSES_LORA_H_
