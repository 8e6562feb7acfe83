// Templates of a decoder block:
//   a = x + Wo · attention(rope(Wqkv · norm1(x))),  y = a + Wdown · swiglu(Wgate_up · norm2(a)).
#include <string>
#include <utility>

#include "common/check.h"
#include "model/emit/ops.h"
#include "model/families/llama_dims.h"

namespace strata::model {
namespace {

using program::Group;
using program::Role;
using program::Template;

enum SavedIndex : int { kQkv, kAttention, kLogSumExp, kResidual, kGateUp, kRstd1, kRstd2 };
enum StashIndex : int { kResidualGradient, kGateUpGradient, kQkvGradient };

// The six tensors of a block inside its sets' formals: weights, or gradients.
struct BlockTensors {
  View norm1, qkv, o, norm2, gate_up, down;
};

// Everything a block's templates are written with.
class BlockEmitter {
 public:
  BlockEmitter(const LlamaDims& dims, Pass pass, std::string name)
      : d_(dims),
        pass_(pass),
        split_(dims.split(pass)),
        rows_(dims.rows(pass)),
        shard_(split_.shard_rows()),
        attention_(dims.attention_shape(pass)),
        sets_(BlockSets(dims, 0)),
        b_(std::move(name), dims.options.threads) {}

  Template Forward();
  Template Backward();
  Template BackwardInput();
  Template BackwardWeight();

 private:
  View Tensor(Role role, const std::string& suffix);
  BlockTensors Matrices(Role role);
  // Gradients of norm weights are sums over this rank's rows only.
  void BindNorms(Role role, BlockTensors& tensors);
  View RopeTable() { return b_.Formal(Role::kConstants, 0, d_.table_bytes, "rope"); }
  View Boundary(Role role, const char* name) {
    return b_.Formal(role, 0, shard_ * d_.hidden * 4, name);
  }
  View Floats(const char* name, int64_t count) { return b_.Local(name, count * 4); }
  // Between forward and backward: a formal where backward will come, else a local.
  View Saved(SavedIndex index, const char* name, int64_t width);
  View Stash(StashIndex index, const char* name, int64_t rows, int64_t width) {
    return b_.Formal(Role::kStash, index, rows * width * 4, name);
  }

  // y = x · wᵀ with x [N/t, C] gathered and w [width, C].
  void ColumnParallel(const View& x, const View& w, const View& y, int64_t width, const char* name);
  // y [N/t, C] = x · wᵀ with x [N, width] and w [C, width], summed over the tensor group.
  void RowParallel(const View& x, const View& w, const View& y, int64_t width, const char* name);
  // dx [N/t, C] = dy · w with dy [N, width] and w [width, C]: back through ColumnParallel.
  void ColumnParallelInput(const View& dy, const View& w, const View& dx, int64_t width,
                           const char* name);
  // dw [width, C] += dyᵀ · x with x [N/t, C] gathered.
  void ColumnParallelWeight(const View& dy, const View& x, const View& dw, int64_t width,
                            const char* name);
  // Back through RowParallel, dy [N/t, C] gathered once for both: dx [N, width] = dy · w, and
  // dw [C, width] += dyᵀ · x. Either is left out when its view is empty.
  struct RowParallelGradients {
    View dx, w, dw, x;
  };
  void RowParallelBackward(const View& dy, const RowParallelGradients& g, int64_t width,
                           const char* name);

  void Attend(const View& qkv, const View& out);
  View NormedAgain(const View& x, const View& w, const char* name);

  const LlamaDims& d_;
  const Pass pass_;
  const RowSplit split_;
  const int64_t rows_;   // N
  const int64_t shard_;  // N/t
  const AttentionShape attention_;
  const std::vector<program::ParameterSet> sets_;
  TemplateBuilder b_;
};

View BlockEmitter::Tensor(Role role, const std::string& suffix) {
  const char* prefix = role == Role::kGradients ? "gradients" : "parameters";
  for (size_t i = 0; i < sets_.size(); ++i) {
    for (const program::TensorSpec& tensor : sets_[i].tensors) {
      if (!tensor.name.ends_with(suffix)) continue;
      return b_.Formal(role, static_cast<int>(i), sets_[i].bytes(), prefix)
          .Part(tensor.offset * 4, tensor.elements() * 4);
    }
  }
  STRATA_CHECK(false);
  return {};
}

BlockTensors BlockEmitter::Matrices(Role role) {
  BlockTensors tensors;
  tensors.qkv = Tensor(role, "qkv_proj.weight");
  tensors.o = Tensor(role, "o_proj.weight");
  tensors.gate_up = Tensor(role, "gate_up_proj.weight");
  tensors.down = Tensor(role, "down_proj.weight");
  return tensors;
}

void BlockEmitter::BindNorms(Role role, BlockTensors& tensors) {
  tensors.norm1 = Tensor(role, "input_layernorm.weight");
  tensors.norm2 = Tensor(role, "post_attention_layernorm.weight");
  if (role == Role::kGradients && d_.degree > 1) {
    tensors.norm1.partial = program::PartialOver(Group::kTensor);
    tensors.norm2.partial = program::PartialOver(Group::kTensor);
  }
}

View BlockEmitter::Saved(SavedIndex index, const char* name, int64_t width) {
  const bool by_shard = index == kResidual || index == kRstd1 || index == kRstd2;
  const int64_t rows = by_shard ? shard_ : rows_;
  if (pass_ != Pass::kForward) return Floats(name, rows * width);
  return b_.Formal(Role::kSaved, index, rows * width * 4, name);
}

void BlockEmitter::ColumnParallel(const View& x, const View& w, const View& y, int64_t width,
                                  const char* name) {
  ForEachGathered(b_, split_, x, d_.hidden, name,
                  [&](int64_t first, int64_t rows, const View& x_rows) {
                    MatMul(b_, {.m = rows, .n = width, .k = d_.hidden, .trans_b = true}, x_rows, w,
                           y.Rows(first, rows, width), false);
                  });
}

void BlockEmitter::RowParallel(const View& x, const View& w, const View& y, int64_t width,
                               const char* name) {
  ForEachScattered(b_, split_, y, d_.hidden, name,
                   [&](int64_t first, int64_t rows, const View& y_rows) {
                     MatMul(b_, {.m = rows, .n = d_.hidden, .k = width, .trans_b = true},
                            x.Rows(first, rows, width), w, y_rows, false);
                   });
}

void BlockEmitter::ColumnParallelInput(const View& dy, const View& w, const View& dx, int64_t width,
                                       const char* name) {
  ForEachScattered(b_, split_, dx, d_.hidden, name,
                   [&](int64_t first, int64_t rows, const View& dx_rows) {
                     MatMul(b_, {.m = rows, .n = d_.hidden, .k = width},
                            dy.Rows(first, rows, width), w, dx_rows, false);
                   });
}

void BlockEmitter::ColumnParallelWeight(const View& dy, const View& x, const View& dw,
                                        int64_t width, const char* name) {
  ForEachGathered(b_, split_, x, d_.hidden, name,
                  [&](int64_t first, int64_t rows, const View& x_rows) {
                    MatMul(b_, {.m = width, .n = d_.hidden, .k = rows, .trans_a = true},
                           dy.Rows(first, rows, width), x_rows, dw, true);
                  });
}

void BlockEmitter::RowParallelBackward(const View& dy, const RowParallelGradients& g, int64_t width,
                                       const char* name) {
  ForEachGathered(b_, split_, dy, d_.hidden, name,
                  [&](int64_t first, int64_t rows, const View& dy_rows) {
                    if (g.dw.slot >= 0) {
                      MatMul(b_, {.m = d_.hidden, .n = width, .k = rows, .trans_a = true}, dy_rows,
                             g.x.Rows(first, rows, width), g.dw, true);
                    }
                    if (g.dx.slot >= 0) {
                      MatMul(b_, {.m = rows, .n = width, .k = d_.hidden}, dy_rows, g.w,
                             g.dx.Rows(first, rows, width), false);
                    }
                  });
}

void BlockEmitter::Attend(const View& qkv, const View& out) {
  if (!d_.decodes(pass_)) {
    Rope(b_, attention_, qkv, RopeTable(), false, {});
    AttentionForward(b_, attention_, qkv, out, Saved(kLogSumExp, "log-sum-exp", attention_.heads));
    return;
  }
  const View scalars = b_.Formal(Role::kScalars, 0, program::kScalarBytes, "scalars");
  const View cache = b_.Formal(Role::kCache, 0, 2 * d_.cache_half, "cache");
  const int64_t used = d_.spec.context * attention_.kv_heads * attention_.head_size * 4;
  Rope(b_, attention_, qkv, RopeTable(), false, scalars);
  AttentionDecode(b_, attention_, d_.spec.context, qkv, cache.Part(0, used),
                  cache.Part(d_.cache_half, used), scalars, out);
}

View BlockEmitter::NormedAgain(const View& x, const View& w, const char* name) {
  const View normed = Floats(name, shard_ * d_.hidden);
  RmsNormForward(b_, shard_, d_.hidden, d_.spec.norm_epsilon, x, w, normed, Floats("rstd", shard_));
  return normed;
}

Template BlockEmitter::Forward() {
  const View x = Boundary(Role::kInput, "input");
  BlockTensors w = Matrices(Role::kParameters);
  BindNorms(Role::kParameters, w);
  const double epsilon = d_.spec.norm_epsilon;
  const View normed1 = Floats("normed input", shard_ * d_.hidden);
  RmsNormForward(b_, shard_, d_.hidden, epsilon, x, w.norm1, normed1, Saved(kRstd1, "rstd 1", 1));
  const View qkv = Saved(kQkv, "qkv", d_.qkv);
  ColumnParallel(normed1, w.qkv, qkv, d_.qkv, "qkv");
  const View attended = Saved(kAttention, "attention", d_.attention);
  Attend(qkv, attended);
  const View branch = Floats("attention branch", shard_ * d_.hidden);
  RowParallel(attended, w.o, branch, d_.attention, "attention branch");
  const View residual = Saved(kResidual, "residual", d_.hidden);
  const View normed2 = Floats("normed residual", shard_ * d_.hidden);
  AddRmsNormForward(b_, shard_, d_.hidden, epsilon, x, branch, w.norm2, residual, normed2,
                    Saved(kRstd2, "rstd 2", 1));
  const View gate_up = Saved(kGateUp, "gate_up", 2 * d_.ffn);
  ColumnParallel(normed2, w.gate_up, gate_up, 2 * d_.ffn, "gate_up");
  const View h = Floats("h", rows_ * d_.ffn);
  SwigluForward(b_, rows_, d_.ffn, gate_up, h);
  const View y = Boundary(Role::kOutput, "output");
  RowParallel(h, w.down, y, d_.ffn, "down");
  Add(b_, y, residual);
  return std::move(b_).Finish();
}

Template BlockEmitter::Backward() {
  const View x = Boundary(Role::kInput, "input");
  const View g = Boundary(Role::kGradientStream, "gradient");
  BlockTensors w = Matrices(Role::kParameters);
  BindNorms(Role::kParameters, w);
  BlockTensors dw = Matrices(Role::kGradients);
  BindNorms(Role::kGradients, dw);
  const int64_t hidden = d_.hidden;

  // Feed-forward.
  const View gate_up = Saved(kGateUp, "gate_up", 2 * d_.ffn);
  const View h = Floats("h", rows_ * d_.ffn);
  SwigluForward(b_, rows_, d_.ffn, gate_up, h);
  const View dh = Floats("dh", rows_ * d_.ffn);
  RowParallelBackward(g, {.dx = dh, .w = w.down, .dw = dw.down, .x = h}, d_.ffn, "gradient");
  const View dgate_up = Floats("dgate_up", rows_ * 2 * d_.ffn);
  SwigluBackward(b_, rows_, d_.ffn, dh, gate_up, dgate_up);
  const View residual = Saved(kResidual, "residual", hidden);
  const View normed2 = NormedAgain(residual, w.norm2, "normed residual");
  ColumnParallelWeight(dgate_up, normed2, dw.gate_up, 2 * d_.ffn, "normed residual");
  const View dnormed2 = Floats("dnormed residual", shard_ * hidden);
  ColumnParallelInput(dgate_up, w.gate_up, dnormed2, 2 * d_.ffn, "dnormed residual");
  RmsNormBackward(b_, shard_, hidden, dnormed2, residual, w.norm2, Saved(kRstd2, "rstd 2", 1), g,
                  true, dw.norm2);

  // Attention.
  const View attended = Saved(kAttention, "attention", d_.attention);
  const View dattended = Floats("dattention", rows_ * d_.attention);
  RowParallelBackward(g, {.dx = dattended, .w = w.o, .dw = dw.o, .x = attended}, d_.attention,
                      "gradient");
  const View dqkv = Floats("dqkv", rows_ * d_.qkv);
  AttentionBackward(b_, attention_, dattended, Saved(kQkv, "qkv", d_.qkv), attended,
                    Saved(kLogSumExp, "log-sum-exp", attention_.heads), dqkv);
  Rope(b_, attention_, dqkv, RopeTable(), true, {});
  const View normed1 = NormedAgain(x, w.norm1, "normed input");
  ColumnParallelWeight(dqkv, normed1, dw.qkv, d_.qkv, "normed input");
  const View dnormed1 = Floats("dnormed input", shard_ * hidden);
  ColumnParallelInput(dqkv, w.qkv, dnormed1, d_.qkv, "dnormed input");
  RmsNormBackward(b_, shard_, hidden, dnormed1, x, w.norm1, Saved(kRstd1, "rstd 1", 1), g, true,
                  dw.norm1);
  return std::move(b_).Finish();
}

Template BlockEmitter::BackwardInput() {
  const View x = Boundary(Role::kInput, "input");
  const View dy = Boundary(Role::kOutputGradient, "output gradient");
  const View dx = Boundary(Role::kInputGradient, "input gradient");
  BlockTensors w = Matrices(Role::kParameters);
  BindNorms(Role::kParameters, w);
  BlockTensors dw;
  BindNorms(Role::kGradients, dw);
  const int64_t hidden = d_.hidden;

  const View dh = Floats("dh", rows_ * d_.ffn);
  RowParallelBackward(dy, {.dx = dh, .w = w.down, .dw = {}, .x = {}}, d_.ffn, "gradient");
  const View dgate_up = Stash(kGateUpGradient, "dgate_up", rows_, 2 * d_.ffn);
  SwigluBackward(b_, rows_, d_.ffn, dh, Saved(kGateUp, "gate_up", 2 * d_.ffn), dgate_up);
  const View residual = Saved(kResidual, "residual", hidden);
  const View dnormed2 = Floats("dnormed residual", shard_ * hidden);
  ColumnParallelInput(dgate_up, w.gate_up, dnormed2, 2 * d_.ffn, "dnormed residual");
  const View dresidual = Stash(kResidualGradient, "dresidual", shard_, hidden);
  Copy(b_, dresidual, dy);
  RmsNormBackward(b_, shard_, hidden, dnormed2, residual, w.norm2, Saved(kRstd2, "rstd 2", 1),
                  dresidual, true, dw.norm2);

  const View dattended = Floats("dattention", rows_ * d_.attention);
  RowParallelBackward(dresidual, {.dx = dattended, .w = w.o, .dw = {}, .x = {}}, d_.attention,
                      "gradient");
  const View dqkv = Stash(kQkvGradient, "dqkv", rows_, d_.qkv);
  AttentionBackward(b_, attention_, dattended, Saved(kQkv, "qkv", d_.qkv),
                    Saved(kAttention, "attention", d_.attention),
                    Saved(kLogSumExp, "log-sum-exp", attention_.heads), dqkv);
  Rope(b_, attention_, dqkv, RopeTable(), true, {});
  const View dnormed1 = Floats("dnormed input", shard_ * hidden);
  ColumnParallelInput(dqkv, w.qkv, dnormed1, d_.qkv, "dnormed input");
  Copy(b_, dx, dresidual);
  RmsNormBackward(b_, shard_, hidden, dnormed1, x, w.norm1, Saved(kRstd1, "rstd 1", 1), dx, true,
                  dw.norm1);
  return std::move(b_).Finish();
}

Template BlockEmitter::BackwardWeight() {
  const View x = Boundary(Role::kInput, "input");
  const View dy = Boundary(Role::kOutputGradient, "output gradient");
  BlockTensors w;
  BindNorms(Role::kParameters, w);
  const BlockTensors dw = Matrices(Role::kGradients);

  const View h = Floats("h", rows_ * d_.ffn);
  SwigluForward(b_, rows_, d_.ffn, Saved(kGateUp, "gate_up", 2 * d_.ffn), h);
  RowParallelBackward(dy, {.dx = {}, .w = {}, .dw = dw.down, .x = h}, d_.ffn, "gradient");
  const View residual = Saved(kResidual, "residual", d_.hidden);
  const View normed2 = NormedAgain(residual, w.norm2, "normed residual");
  ColumnParallelWeight(Stash(kGateUpGradient, "dgate_up", rows_, 2 * d_.ffn), normed2, dw.gate_up,
                       2 * d_.ffn, "normed residual");
  const View dresidual = Stash(kResidualGradient, "dresidual", shard_, d_.hidden);
  const View attended = Saved(kAttention, "attention", d_.attention);
  RowParallelBackward(dresidual, {.dx = {}, .w = {}, .dw = dw.o, .x = attended}, d_.attention,
                      "gradient");
  const View normed1 = NormedAgain(x, w.norm1, "normed input");
  ColumnParallelWeight(Stash(kQkvGradient, "dqkv", rows_, d_.qkv), normed1, dw.qkv, d_.qkv,
                       "normed input");
  return std::move(b_).Finish();
}

}  // namespace

Template EmitBlock(const LlamaDims& dims, Pass pass) {
  static constexpr const char* kNames[] = {"block forward", "block evaluate", "block prefill",
                                           "block decode"};
  return BlockEmitter(dims, pass, kNames[static_cast<int>(pass)]).Forward();
}
Template EmitBlockBackward(const LlamaDims& dims) {
  return BlockEmitter(dims, Pass::kForward, "block backward").Backward();
}
Template EmitBlockBackwardInput(const LlamaDims& dims) {
  return BlockEmitter(dims, Pass::kForward, "block backward-input").BackwardInput();
}
Template EmitBlockBackwardWeight(const LlamaDims& dims) {
  return BlockEmitter(dims, Pass::kForward, "block backward-weight").BackwardWeight();
}

}  // namespace strata::model
