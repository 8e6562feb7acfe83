// Templates of the first layer (embedding) and the last (norm, logits, loss).
#include <algorithm>
#include <string>
#include <utility>

#include "common/units.h"
#include "model/emit/ops.h"
#include "model/families/llama_dims.h"

namespace strata::model {
namespace {

using program::Group;
using program::ParameterSet;
using program::Role;
using program::Template;

// Logits of one chunk, when the options leave it open.
constexpr int64_t kChunkLogitsBytes = 16 * common::kMiB;
constexpr int64_t kSmallestChunk = 256;

View Tokens(TemplateBuilder& builder, Role role, int64_t rows) {
  return builder.Formal(role, 0, rows * 4, role == Role::kTokens ? "tokens" : "targets");
}

// The table's tensor inside its set's formal.
View Table(TemplateBuilder& builder, const LlamaDims& dims, Role role, int index) {
  const ParameterSet set = TableSet(dims, "table", "table");
  return builder.Formal(role, index, set.bytes(), role == Role::kGradients ? "gradients" : "table")
      .Part(0, dims.vocab * dims.hidden * 4);
}

View FinalNorm(TemplateBuilder& builder, const LlamaDims& dims, Role role) {
  const ParameterSet set = FinalNormSet(dims);
  View view =
      builder.Formal(role, 0, set.bytes(), role == Role::kGradients ? "norm gradients" : "norm")
          .Part(0, dims.hidden * 4);
  if (role == Role::kGradients && dims.degree > 1) {
    view.partial = program::PartialOver(Group::kTensor);
  }
  return view;
}

int64_t ChunkRows(const LlamaDims& dims, int64_t rows) {
  int64_t most = dims.options.head_chunk_rows;
  if (most == 0) most = std::max(kSmallestChunk, kChunkLogitsBytes / (4 * dims.vocab));
  // Chunks of nearly the same size rather than a small last one.
  const int64_t chunks = common::CeilDivide(rows, most);
  return std::min(most, common::RoundUp(common::CeilDivide(rows, chunks), 16));
}

// What the head's templates share: formals, and the locals of one chunk.
class HeadEmitter {
 public:
  HeadEmitter(const LlamaDims& dims, bool gradients, const char* name)
      : d_(dims),
        gradients_(gradients),
        split_(dims.split(Pass::kForward)),
        rows_(dims.rows(Pass::kForward)),
        b_(name, dims.options.threads) {}

  Template Local();
  Template Parallel();

 private:
  void BindFormals();
  void LocalChunk(int64_t first, int64_t rows);
  void ParallelChunk(int64_t first, int64_t rows, const View& normed, const View& statistics);

  const LlamaDims& d_;
  const bool gradients_;
  const RowSplit split_;
  const int64_t rows_;
  TemplateBuilder b_;
  View x_, targets_, scalars_, loss_, norm_, table_, dx_, dnorm_, dtable_;
  View normed_, rstd_, logits_, dnormed_;
};

void HeadEmitter::BindFormals() {
  x_ = b_.Formal(Role::kInput, 0, split_.shard_rows() * d_.hidden * 4, "input");
  targets_ = Tokens(b_, Role::kTargets, rows_);
  loss_ = b_.Formal(Role::kLoss, 0, 8, "loss");
  norm_ = FinalNorm(b_, d_, Role::kParameters);
  table_ = Table(b_, d_, Role::kParameters, 1);
  if (gradients_ || d_.degree > 1) {
    scalars_ = b_.Formal(Role::kScalars, 0, program::kScalarBytes, "scalars");
  }
  if (!gradients_) return;
  dx_ = b_.Formal(Role::kGradientStream, 0, x_.bytes, "gradient");
  dnorm_ = FinalNorm(b_, d_, Role::kGradients);
  dtable_ = Table(b_, d_, Role::kGradients, 1);
}

void HeadEmitter::LocalChunk(int64_t first, int64_t rows) {
  const int64_t hidden = d_.hidden;
  const View x = x_.Rows(first, rows, hidden);
  const View normed = normed_.Rows(0, rows, hidden);
  const View rstd = rstd_.Rows(0, rows, 1);
  const View logits = logits_.Rows(0, rows, d_.vocab);
  const View targets = targets_.Rows(first, rows, 1);
  RmsNormForward(b_, rows, hidden, d_.spec.norm_epsilon, x, norm_, normed, rstd);
  MatMul(b_, {.m = rows, .n = d_.vocab, .k = hidden, .trans_b = true}, normed, table_, logits,
         false);
  if (!gradients_) {
    CrossEntropyLoss(b_, rows, d_.vocab, logits, targets, loss_);
    return;
  }
  CrossEntropy(b_, rows, d_.vocab, logits, targets, scalars_, loss_);
  const View dnormed = dnormed_.Rows(0, rows, hidden);
  MatMul(b_, {.m = rows, .n = hidden, .k = d_.vocab}, logits, table_, dnormed, false);
  MatMul(b_, {.m = d_.vocab, .n = hidden, .k = rows, .trans_a = true}, logits, normed, dtable_,
         true);
  RmsNormBackward(b_, rows, hidden, dnormed, x, norm_, rstd, dx_.Rows(first, rows, hidden), false,
                  dnorm_);
}

Template HeadEmitter::Local() {
  BindFormals();
  const int64_t chunk = ChunkRows(d_, rows_);
  normed_ = b_.Local("normed", chunk * d_.hidden * 4);
  rstd_ = b_.Local("rstd", chunk * 4);
  logits_ = b_.Local("logits", chunk * d_.vocab * 4);
  if (gradients_) dnormed_ = b_.Local("dnormed", chunk * d_.hidden * 4);
  for (int64_t first = 0; first < rows_; first += chunk) {
    LocalChunk(first, std::min(chunk, rows_ - first));
  }
  return std::move(b_).Finish();
}

void HeadEmitter::ParallelChunk(int64_t first, int64_t rows, const View& normed,
                                const View& statistics) {
  const VocabularyShape shape = d_.vocabulary(rows);
  const View targets = targets_.Rows(first, rows, 1);
  const View own = b_.Local("own statistics", rows * 3 * 4, program::SlotClass::kCommunication);
  MatMul(b_, {.m = rows, .n = d_.vocab, .k = d_.hidden, .trans_b = true}, normed, table_, logits_,
         false);
  CrossEntropyStatistics(b_, shape, logits_, targets, own);
  AllGather(b_, Group::kTensor, own, statistics);
  CrossEntropyFinish(b_, shape, logits_, targets, statistics, scalars_, loss_);
  if (gradients_) {
    MatMul(b_, {.m = d_.vocab, .n = d_.hidden, .k = rows, .trans_a = true}, logits_, normed,
           dtable_, true);
  }
}

// One chunk of logits per chunk of the row split: a chunk's rows are all of the group's, in order.
Template HeadEmitter::Parallel() {
  BindFormals();
  const int64_t chunk = split_.chunk_rows();
  const int64_t part = split_.part_rows();
  const int64_t hidden = d_.hidden;
  const int64_t shard = split_.shard_rows();
  normed_ = b_.Local("normed", shard * hidden * 4);
  rstd_ = b_.Local("rstd", shard * 4);
  logits_ = b_.Local("logits", chunk * d_.vocab * 4);
  const View statistics =
      b_.Local("statistics", split_.degree * chunk * 3 * 4, program::SlotClass::kCommunication);
  View partial, scratch;
  if (gradients_) {
    dnormed_ = b_.Local("dnormed", shard * hidden * 4);
    partial = b_.Local("dnormed partial", chunk * hidden * 4, program::SlotClass::kCommunication)
                  .Marked(program::PartialOver(Group::kTensor));
    scratch = b_.Local("dnormed scratch", ReduceScatterScratchBytes(partial.bytes, split_.degree),
                       program::SlotClass::kCommunication);
  }
  RmsNormForward(b_, shard, hidden, d_.spec.norm_epsilon, x_, norm_, normed_, rstd_);
  ForEachGathered(
      b_, split_, normed_, hidden, "normed", [&](int64_t first, int64_t rows, const View& normed) {
        ParallelChunk(first, rows, normed, statistics);
        if (!gradients_) return;
        MatMul(b_, {.m = rows, .n = hidden, .k = d_.vocab}, logits_, table_, partial, false);
        ReduceScatter(b_, Group::kTensor, partial,
                      dnormed_.Rows(first / chunk * part, part, hidden), scratch);
      });
  if (gradients_) {
    RmsNormBackward(b_, shard, hidden, dnormed_, x_, norm_, rstd_, dx_, false, dnorm_);
  }
  return std::move(b_).Finish();
}

}  // namespace

Template EmitEmbedding(const LlamaDims& dims, Pass pass) {
  static constexpr const char* kNames[] = {"embedding forward", "embedding evaluate",
                                           "embedding prefill", "embedding decode"};
  TemplateBuilder b(kNames[static_cast<int>(pass)], dims.options.threads);
  const RowSplit split = dims.split(pass);
  const View tokens = Tokens(b, Role::kTokens, split.rows);
  const View table = Table(b, dims, Role::kParameters, 0);
  const View y = b.Formal(Role::kOutput, 0, split.shard_rows() * dims.hidden * 4, "output");
  // A rank looks up the tokens of its part of the vocabulary; the others' rows are zeros.
  ForEachScattered(
      b, split, y, dims.hidden, "embedding", [&](int64_t first, int64_t rows, const View& y_rows) {
        EmbeddingForward(b, dims.vocabulary(rows), tokens.Rows(first, rows, 1), table, y_rows);
      });
  return std::move(b).Finish();
}

Template EmitEmbeddingBackward(const LlamaDims& dims, Role gradient) {
  TemplateBuilder b(
      gradient == Role::kGradientStream ? "embedding backward" : "embedding backward-weight",
      dims.options.threads);
  const RowSplit split = dims.split(Pass::kForward);
  const View tokens = Tokens(b, Role::kTokens, split.rows);
  const View dy = b.Formal(gradient, 0, split.shard_rows() * dims.hidden * 4, "gradient");
  const View dtable = Table(b, dims, Role::kGradients, 0);
  ForEachGathered(
      b, split, dy, dims.hidden, "gradient", [&](int64_t first, int64_t rows, const View& dy_rows) {
        EmbeddingBackward(b, dims.vocabulary(rows), tokens.Rows(first, rows, 1), dy_rows, dtable);
      });
  return std::move(b).Finish();
}

Template EmitHead(const LlamaDims& dims, bool gradients) {
  HeadEmitter emitter(dims, gradients, gradients ? "head backward" : "head evaluate");
  return dims.degree == 1 ? emitter.Local() : emitter.Parallel();
}

Template EmitHeadLogits(const LlamaDims& dims, Pass pass) {
  TemplateBuilder b(pass == Pass::kPrefill ? "head prefill" : "head decode", dims.options.threads);
  const int64_t rows = dims.rows(pass);
  const View x = b.Formal(Role::kInput, 0, rows * dims.hidden * 4, "input");
  const View norm = FinalNorm(b, dims, Role::kParameters);
  const View table = Table(b, dims, Role::kParameters, 1);
  const View logits = b.Formal(Role::kLogits, 0, rows * dims.vocab * 4, "logits");
  const View normed = b.Local("normed", rows * dims.hidden * 4);
  RmsNormForward(b, rows, dims.hidden, dims.spec.norm_epsilon, x, norm, normed,
                 b.Local("rstd", rows * 4));
  MatMul(b, {.m = rows, .n = dims.vocab, .k = dims.hidden, .trans_b = true}, normed, table, logits,
         false);
  return std::move(b).Finish();
}

}  // namespace strata::model
