#include "worker/engine/toy_step.h"

#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/rng.h"
#include "common/status_macros.h"
#include "ops/op_struct.h"
#include "ops/step.h"
#include "program/compose/assembler.h"
#include "program/passes/layout.h"
#include "worker/engine/communication_binding.h"

namespace strata::worker {
namespace {

using program::Access;
using program::CollectiveOp;
using program::DType;
using program::Group;
using program::Operand;
using program::OpKind;
using program::Purpose;
using program::Scalar;
using program::SlotClass;
using program::Stream;

constexpr int64_t kSamplesPerShard = 2;
constexpr int64_t kRowsPerShard = kSamplesPerShard * kToySequence;
constexpr int64_t kRowBytes = kToyChannels * 4;

Operand Read(Operand operand) { return operand; }
Operand Write(Operand operand) {
  operand.access = Access::kWrite;
  return operand;
}
Operand Accumulate(Operand operand) {
  operand.access = Access::kAccumulate;
  return operand;
}
Operand Next(Operand operand) {
  operand.version = 1;
  return operand;
}

class ToyBuilder {
 public:
  ToyBuilder(int ranks, bool sharded)
      : ranks_(ranks), sharded_(sharded && ranks > 1), assembler_(set_, program::Tier::kHost) {}

  ToyStep Run() {
    set_.groups.data = ranks_;
    scalars_ = set_.scalars =
        assembler_.AddPersistent("scalars", SlotClass::kScalars, program::kScalarBytes);
    table_ = assembler_.AddPersistent("table", SlotClass::kParameters, kToyTable, true);
    for (int& moment : moments_) {
      moment = assembler_.AddPersistent("moment", SlotClass::kOptimizer,
                                        sharded_ ? kToyTable / ranks_ : kToyTable, true);
    }
    BuildTrain();
    BuildEvaluate();
    STRATA_CHECK(program::LayOut(set_).ok());
    return {std::move(set_), table_};
  }

 private:
  int local_shards() const { return kToyShards / ranks_; }
  Operand Whole(int slot, int64_t bytes) const { return {.slot = slot, .bytes = bytes}; }
  Operand Own(int slot, int64_t whole, int64_t offset, int64_t bytes) const {
    if (ranks_ == 1) return {.slot = slot, .offset = offset, .bytes = bytes};
    return {.slot = slot,
            .offset = offset,
            .bytes = bytes,
            .shard_group = Group::kData,
            .shard_stride = whole / ranks_};
  }
  Operand Scalars() const { return Whole(scalars_, program::kScalarBytes); }
  // A row of the losses or of the norms.
  Operand Row(int slot, int shard) const { return Own(slot, kTableBytes, shard * 8, 8); }
  static constexpr int64_t kTableBytes = kToyShards * 8;

  void Begin(const char* name) {
    assembler_.BeginProgram(name);
    const int64_t bytes = local_shards() * kRowsPerShard * 4;
    tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, bytes);
    const int targets = assembler_.AddTransient("targets", SlotClass::kBatch, bytes);
    losses_ = assembler_.AddTransient("losses", SlotClass::kBatch, kTableBytes);
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {Write({.slot = scalars_, .bytes = ScalarOffset(Scalar::kLoss)})});
    assembler_.CallOp(
        {.kind = OpKind::kLoadBatch, .ints = {local_shards() * kSamplesPerShard, kToySequence}},
        Purpose::kLoad, "load batch", {Write(Whole(tokens_, bytes)), Write(Whole(targets, bytes))});
  }

  // Rows of the shard, their Σ x² as its loss; returns the slot of the rows.
  int Forward(int shard) {
    const int64_t bytes = kRowsPerShard * kRowBytes;
    const int rows = assembler_.AddTransient("rows", SlotClass::kActivations, bytes);
    assembler_.CallOp(
        {.kind = OpKind::kEmbeddingForward, .ints = {kRowsPerShard, kToyVocab, kToyChannels, 0}},
        Purpose::kForward, absl::StrCat("forward ", shard),
        {Tokens(shard), Whole(table_, kToyTable), Write(Whole(rows, bytes))});
    assembler_.CallOp({.kind = OpKind::kSumSquares, .ints = {bytes / 4}}, Purpose::kForward,
                      absl::StrCat("loss ", shard),
                      {Whole(rows, bytes), Write(Row(losses_, shard))});
    return rows;
  }
  Operand Tokens(int shard) const {
    return {.slot = tokens_, .offset = shard * kRowsPerShard * 4, .bytes = kRowsPerShard * 4};
  }

  void BuildTrain() {
    Begin("train");
    norms_ = assembler_.AddTransient("norms", SlotClass::kBatch, kTableBytes);
    std::vector<int> gradients;
    for (int shard = 0; shard < local_shards(); ++shard) {
      const int rows = Forward(shard);
      gradients.push_back(assembler_.AddTransient("gradient", SlotClass::kGradients, kToyTable));
      const Operand gradient = Whole(gradients.back(), kToyTable);
      assembler_.Zero(gradient, Purpose::kBackward, "zero gradient");
      assembler_.CallOp(
          {.kind = OpKind::kEmbeddingBackward, .ints = {kRowsPerShard, kToyVocab, kToyChannels, 0}},
          Purpose::kBackward, absl::StrCat("backward ", shard),
          {Tokens(shard), Whole(rows, kRowsPerShard * kRowBytes), Accumulate(gradient)});
    }
    for (int distance = 1; distance < local_shards(); distance *= 2) {
      for (int i = 0; i + distance < local_shards(); i += 2 * distance) {
        assembler_.CallOp({.kind = OpKind::kAdd, .ints = {kToyTable / 4}}, Purpose::kCombine,
                          "combine",
                          {Accumulate(Whole(gradients[i], kToyTable)),
                           Read(Whole(gradients[i + distance], kToyTable))});
      }
    }
    gradient_ = gradients[0];
    Reduce();
    for (int shard = 0; shard < local_shards(); ++shard) {
      const int64_t range = kToyTable / kToyShards;
      assembler_.CallOp(
          {.kind = OpKind::kSumSquares, .ints = {range / 4}}, Purpose::kNorm, "norm",
          {Own(gradient_, kToyTable, shard * range, range), Write(Row(norms_, shard))});
    }
    Finish(1);
    assembler_.Add({.mechanism = program::Mechanism::kSignal,
                    .purpose = Purpose::kSnapshot,
                    .label = "snapshot gate"});
    Update();
  }

  void Collective(CollectiveOp op, DType dtype, int64_t bytes, Stream stream, const char* label,
                  Operand in, Operand out) {
    assembler_.Collective({.op = op, .group = Group::kData, .dtype = dtype, .bytes = bytes},
                          stream == Stream::kGradients ? Purpose::kReduce : Purpose::kGather,
                          stream, label, in, out, CollectiveScratchBytes);
  }

  void Reduce() {
    if (ranks_ == 1) return;
    const Operand whole = Whole(gradient_, kToyTable);
    if (sharded_) {
      Collective(CollectiveOp::kReduceScatter, DType::kF32, kToyTable / ranks_, Stream::kGradients,
                 "reduce gradient", whole, Own(gradient_, kToyTable, 0, kToyTable / ranks_));
    } else {
      Collective(CollectiveOp::kAllReduce, DType::kF32, kToyTable, Stream::kGradients,
                 "reduce gradient", whole, whole);
    }
  }

  Operand Gathered(int slot, const char* label) {
    const Operand whole = Whole(slot, kTableBytes);
    if (ranks_ > 1) {
      const int64_t own = kTableBytes / ranks_;
      Collective(CollectiveOp::kAllGather, DType::kF64, own, Stream::kGradients, label,
                 Own(slot, kTableBytes, 0, own), whole);
    }
    return whole;
  }

  void Finish(int64_t sets) {
    std::vector<Operand> operands{
        Gathered(losses_, "gather losses"), Whole(scalars_, ScalarOffset(Scalar::kLoss)),
        Write(
            {.slot = scalars_, .offset = ScalarOffset(Scalar::kLoss), .bytes = sets > 0 ? 40 : 8})};
    if (sets > 0) operands.push_back(Gathered(norms_, "gather norms"));
    assembler_.CallOp(
        ops::ToOp(ops::FinishStep{
            .rows = kToyShards, .sets = sets, .data = ranks_, .norm_ranks = ranks_, .clip = 1}),
        Purpose::kNorm, "finish", std::move(operands));
  }

  void Update() {
    const int64_t bytes = sharded_ ? kToyTable / ranks_ : kToyTable;
    const auto part = [&](int slot) {
      return sharded_ ? Own(slot, kToyTable, 0, bytes) : Whole(slot, kToyTable);
    };
    assembler_.CallOp(
        {.kind = OpKind::kAdamW,
         .ints = {bytes / 4, 0, kToyTable / 4},
         .floats = {0.9, 0.95, 1e-8, 0.1}},
        Purpose::kUpdate, "update",
        {part(table_), Whole(moments_[0], bytes), Whole(moments_[1], bytes), part(gradient_),
         Scalars(), Write(Next(part(table_))), Write(Next(Whole(moments_[0], bytes))),
         Write(Next(Whole(moments_[1], bytes)))});
    assembler_.last().predicate = program::Predicate{Scalar::kApply};
    if (!sharded_) return;
    Collective(CollectiveOp::kAllGather, DType::kF32, bytes, Stream::kParameters, "gather table",
               Next(part(table_)), Next(Whole(table_, kToyTable)));
    assembler_.last().predicate = program::Predicate{Scalar::kApply};
  }

  void BuildEvaluate() {
    Begin("evaluate");
    for (int shard = 0; shard < local_shards(); ++shard) Forward(shard);
    Finish(0);
  }

  int ranks_;
  bool sharded_;
  program::ProgramSet set_;
  program::Assembler assembler_;
  int scalars_ = -1, table_ = -1, tokens_ = -1, losses_ = -1, norms_ = -1, gradient_ = -1;
  int moments_[2] = {-1, -1};
};

}  // namespace

ToyStep MakeToyStep(int ranks, bool sharded) { return ToyBuilder(ranks, sharded).Run(); }

absl::Status ToyHost::LoadBatch(const BatchRows& rows) {
  const int64_t sequence = rows.sequence;
  for (int64_t i = 0; i < rows.samples * sequence; ++i) {
    const int64_t sample = rows.samples * rank_ + i / sequence;
    rows.tokens[i] =
        static_cast<int32_t>(common::MixBits(step, sample * sequence + i % sequence) % kToyVocab);
    rows.targets[i] = -1;
  }
  return load_status;
}

absl::Status ToyHost::LoadScalars(double* scalars) {
  scalars[static_cast<int>(Scalar::kStep)] = static_cast<double>(step);
  scalars[static_cast<int>(Scalar::kApplied)] = static_cast<double>(applied);
  scalars[static_cast<int>(Scalar::kLearningRate)] = 0.01;
  scalars[static_cast<int>(Scalar::kInverseTokens)] =
      1.0 / (kToyShards * kSamplesPerShard * kToySequence);
  return absl::OkStatus();
}

absl::Status ToyHost::Signal(program::Purpose, const std::string& label) {
  signals += label == "snapshot gate";
  return absl::OkStatus();
}

absl::Status ToyRank::Train() {
  RETURN_IF_ERROR(engine->RunStep(0, host->applied));
  ++host->step;
  if (engine->scalar(Scalar::kApply) != 0) ++host->applied;
  return absl::OkStatus();
}

EngineOptions ToyOptions(int ranks, ToyRank& rank) {
  EngineOptions options;
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  for (const Group group : {Group::kWorld, Group::kData}) {
    if (ranks > 1) options.groups[group] = all;
  }
  options.pool = rank.pool.get();
  options.host = rank.host.get();
  options.communicator = rank.communicator.get();
  return options;
}

absl::StatusOr<ToyRank> OpenToyRank(int rank, int ranks, bool sharded,
                                    std::unique_ptr<collectives::Communicator> communicator) {
  ToyRank result;
  result.communicator = std::move(communicator);
  result.host = std::make_unique<ToyHost>(rank, ranks);
  result.pool = std::make_unique<device::ThreadPool>(1);
  ToyStep step = MakeToyStep(ranks, sharded);
  result.table = step.table;
  ASSIGN_OR_RETURN(result.engine, Engine::Create(std::move(step.set), ToyOptions(ranks, result)));
  const absl::Span<std::byte> bytes = result.engine->SlotBytes(result.table, 0, 0);
  auto* table = reinterpret_cast<float*>(bytes.data());
  for (int64_t i = 0; i < kToyTable / 4; ++i) table[i] = common::NormalAt(3, i);
  return result;
}

}  // namespace strata::worker
