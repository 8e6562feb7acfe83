#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "model/families/llama_dims.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::ParameterSet;
using program::TensorSpec;

TensorSpec Matrix(std::string name, int64_t rows, int64_t columns, double std) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = {rows, columns};
  tensor.initializer = {Initializer::Kind::kNormal, std};
  tensor.decay = true;
  return tensor;
}

TensorSpec Norm(std::string name, int64_t size) {
  TensorSpec tensor;
  tensor.name = std::move(name);
  tensor.shape = {size};
  tensor.initializer = {Initializer::Kind::kConstant, 1};
  return tensor;
}

// A matrix of which this rank holds a cut along `dimension`.
TensorSpec CutAlong(int dimension, const LlamaDims& dims, TensorSpec tensor) {
  if (dims.degree > 1) tensor.cut = {program::Group::kTensor, dimension, dims.degree};
  return tensor;
}

ParameterSet MakeSet(const LlamaDims& dims, std::string name, std::vector<TensorSpec> tensors) {
  ParameterSet set;
  set.name = std::move(name);
  set.tensors = std::move(tensors);
  program::FlattenSet(set, dims.options.set_ranges);
  return set;
}

}  // namespace

LlamaDims MakeDims(const ModelSpec& spec, const EmitOptions& options) {
  LlamaDims dims;
  dims.spec = spec;
  dims.options = options;
  dims.degree = options.tensor_degree;
  dims.hidden = spec.hidden;
  dims.qkv = spec.qkv_rows() / dims.degree;
  dims.attention = spec.attention_width() / dims.degree;
  dims.ffn = spec.ffn / dims.degree;
  dims.vocab = spec.vocab / dims.degree;
  dims.cache_half =
      common::RoundUp(spec.context * spec.kv_heads * spec.head_size * 4, program::kSlotAlignment);
  dims.table_bytes = RopeTableRows(spec, options) * spec.head_size * 4;
  return dims;
}

std::vector<ParameterSet> BlockSets(const LlamaDims& dims, int64_t layer) {
  const ModelSpec& spec = dims.spec;
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const double std = spec.initial_std;
  const double residual_std = std / std::sqrt(2.0 * static_cast<double>(spec.layers));
  const int64_t q_rows = dims.attention;
  const int64_t kv_rows = (dims.qkv - q_rows) / 2;

  TensorSpec norm1 = Norm(prefix + "input_layernorm.weight", spec.hidden);
  TensorSpec qkv = Matrix(prefix + "self_attn.qkv_proj.weight", dims.qkv, spec.hidden, std);
  qkv.parts = {{prefix + "self_attn.q_proj.weight", q_rows},
               {prefix + "self_attn.k_proj.weight", kv_rows},
               {prefix + "self_attn.v_proj.weight", kv_rows}};
  TensorSpec o =
      Matrix(prefix + "self_attn.o_proj.weight", spec.hidden, dims.attention, residual_std);
  TensorSpec norm2 = Norm(prefix + "post_attention_layernorm.weight", spec.hidden);
  TensorSpec gate_up = Matrix(prefix + "mlp.gate_up_proj.weight", 2 * dims.ffn, spec.hidden, std);
  gate_up.parts = {{prefix + "mlp.gate_proj.weight", dims.ffn},
                   {prefix + "mlp.up_proj.weight", dims.ffn}};
  TensorSpec down = Matrix(prefix + "mlp.down_proj.weight", spec.hidden, dims.ffn, residual_std);

  const std::string name = absl::StrCat("layers.", layer);
  return {MakeSet(dims, name,
                  {CutAlong(0, dims, qkv), CutAlong(1, dims, o), CutAlong(0, dims, gate_up),
                   CutAlong(1, dims, down)}),
          MakeSet(dims, name + ".norms", {norm1, norm2})};
}

ParameterSet TableSet(const LlamaDims& dims, const char* set, const char* tensor) {
  return MakeSet(
      dims, set,
      {CutAlong(0, dims, Matrix(tensor, dims.vocab, dims.hidden, dims.spec.initial_std))});
}

ParameterSet FinalNormSet(const LlamaDims& dims) {
  return MakeSet(dims, "norm", {Norm("model.norm.weight", dims.hidden)});
}

}  // namespace strata::model
