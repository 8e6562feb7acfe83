#include "program/builder/data_parallel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/builder/gradient_tree.h"
#include "program/passes/layout.h"

namespace strata::program {
namespace {

absl::Status CheckOptions(const LayerGraph& graph, const DataParallelOptions& options) {
  const int64_t shards = options.virtual_shards;
  if (options.data < 1 || shards < 1 || shards % options.data != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "virtual_shards ", shards, " is not a multiple of the data degree ", options.data));
  }
  if (options.global_batch < 1 || options.global_batch % (shards * graph.micro_batch) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("global batch ", options.global_batch,
                                                   " is not a multiple of virtual_shards ", shards,
                                                   " x micro-batch ", graph.micro_batch));
  }
  if (options.data > 1 && !options.scratch) return absl::InvalidArgumentError("no scratch formula");
  return absl::OkStatus();
}

class Builder {
 public:
  Builder(LayerGraph graph, const DataParallelOptions& options)
      : graph_(std::move(graph)), options_(options), assembler_(result_.set, options.tier) {
    for (ParameterSet& set : graph_.sets) FlattenSet(set, options.virtual_shards);
    result_.set.groups.data = options.data;
    result_.set.templates = graph_.templates;
    result_.set.sets = graph_.sets;
    for (size_t s = 0; s < graph_.sets.size(); ++s) {
      if (graph_.sets[s].trainable) trainable_.push_back(static_cast<int>(s));
    }
  }

  absl::StatusOr<DataParallelPrograms> Run(const UpdateEmitter& update) {
    AddState(update);
    BuildTrain();
    if (options_.evaluate_batch > 0) BuildEvaluate();
    RETURN_IF_ERROR(LayOut(result_.set));
    return std::move(result_);
  }

 private:
  // What the templates of one pass (a micro-batch) are bound to.
  struct Pass {
    std::string name;                     // "micro 3"
    int64_t first_row = 0;                // of the rank's batch
    int shard = 0;                        // local virtual shard
    std::vector<int> boundaries;          // activation after each layer
    std::vector<std::vector<int>> saved;  // [layer][index]
    int gradient_stream = -1;
  };

  int local_shards() const { return options_.virtual_shards / options_.data; }
  bool distributed() const { return options_.data > 1; }
  Partial partial() const { return distributed() ? PartialOver(Group::kData) : 0; }
  bool sharded() const { return options_.shard_optimizer && distributed(); }

  // This rank's equal part of something that all ranks of the data group hold the whole of.
  Operand OwnPart(int slot, int64_t whole_bytes, int64_t offset, int64_t bytes) const {
    return {.slot = slot,
            .offset = offset,
            .bytes = bytes,
            .shard_group = distributed() ? Group::kData : Group::kNone,
            .shard_stride = distributed() ? whole_bytes / options_.data : 0};
  }
  Operand OwnPart(int slot, int64_t whole_bytes) const {
    return OwnPart(slot, whole_bytes, 0, whole_bytes / options_.data);
  }

  void AddState(const UpdateEmitter& update) {
    result_.slots.scalars = assembler_.AddPersistent("scalars", SlotClass::kScalars, kScalarBytes);
    result_.set.scalars = result_.slots.scalars;
    for (const Constant& constant : graph_.constants) {
      result_.slots.constants.push_back(
          assembler_.AddPersistent(constant.name, SlotClass::kConstants, constant.bytes));
    }
    for (const ParameterSet& set : graph_.sets) {
      result_.slots.parameters.push_back(
          assembler_.AddPersistent(set.name, SlotClass::kParameters, set.bytes(), set.trainable));
      std::array<int, 2> moments{-1, -1};
      int update_template = -1;
      if (set.trainable) {
        const int64_t bytes = sharded() ? set.bytes() / options_.data : set.bytes();
        for (int m = 0; m < 2; ++m) {
          moments[m] = assembler_.AddPersistent(
              absl::StrCat(set.name, m == 0 ? " first moment" : " second moment"),
              SlotClass::kOptimizer, bytes, true);
        }
        update_template = static_cast<int>(result_.set.templates.size());
        result_.set.templates.push_back(update(set, bytes / 4));
      }
      result_.slots.moments.push_back(moments);
      update_templates_.push_back(update_template);
    }
  }

  // Tokens, targets, leaves, and the instructions that fill them; `columns` of the leaves: 1 + sets
  // summed into norms.
  void BeginProgram(const std::string& name, int64_t rows, int64_t columns) {
    assembler_.BeginProgram(name);
    columns_ = columns;
    const int64_t batch_bytes = rows * graph_.sequence * 4;
    tokens_ = assembler_.AddTransient("tokens", SlotClass::kBatch, batch_bytes);
    targets_ = assembler_.AddTransient("targets", SlotClass::kBatch, batch_bytes);
    leaves_ = assembler_.AddTransient("leaves", SlotClass::kBatch, leaves_bytes());
    assembler_.CallOp({.kind = OpKind::kLoadScalars}, Purpose::kLoad, "load scalars",
                      {{.slot = result_.slots.scalars,
                        .bytes = ScalarOffset(Scalar::kLoss),
                        .access = Access::kWrite}});
    assembler_.CallOp({.kind = OpKind::kLoadBatch, .ints = {rows, graph_.sequence}}, Purpose::kLoad,
                      "load batch",
                      {{.slot = tokens_, .bytes = batch_bytes, .access = Access::kWrite},
                       {.slot = targets_, .bytes = batch_bytes, .access = Access::kWrite}});
    assembler_.Zero(OwnPart(leaves_, leaves_bytes()), Purpose::kLoad, "zero losses");
  }
  int64_t leaves_bytes() const { return options_.virtual_shards * columns_ * 8; }
  Operand Leaf(int shard, int64_t column) const {
    return OwnPart(leaves_, leaves_bytes(), (shard * columns_ + column) * 8, 8);
  }

  Operand Bind(const Formal& formal, const Layer& layer, int index, Pass& pass, bool forward) {
    const int64_t row_bytes = graph_.sequence * 4;
    switch (formal.role) {
      case Role::kInput:
        return Whole(pass.boundaries[index - 1], formal.bytes);
      case Role::kOutput:
        pass.boundaries[index] =
            assembler_.AddTransient(absl::StrCat("activation after ", layer.name, " ", pass.name),
                                    SlotClass::kActivations, formal.bytes);
        return Whole(pass.boundaries[index], formal.bytes);
      case Role::kSaved:
        if (forward) {
          pass.saved[index].resize(std::max<size_t>(pass.saved[index].size(), formal.index + 1),
                                   -1);
          pass.saved[index][formal.index] =
              assembler_.AddTransient(absl::StrCat(formal.name, " of ", layer.name, " ", pass.name),
                                      SlotClass::kActivations, formal.bytes);
        }
        return Whole(pass.saved[index][formal.index], formal.bytes);
      case Role::kGradientStream:
        if (pass.gradient_stream < 0) {
          pass.gradient_stream = assembler_.AddTransient(
              absl::StrCat("gradient stream ", pass.name), SlotClass::kActivations, formal.bytes);
        }
        return Whole(pass.gradient_stream, formal.bytes);
      case Role::kParameters:
        return Whole(result_.slots.parameters[layer.sets[formal.index]], formal.bytes);
      case Role::kGradients: {
        const int set = layer.sets[formal.index];
        Operand operand = Whole(trees_[set].Leaf(), formal.bytes);
        operand.partial = partial();
        return operand;
      }
      case Role::kTokens:
        return {.slot = tokens_, .offset = pass.first_row * row_bytes, .bytes = formal.bytes};
      case Role::kTargets:
        return {.slot = targets_, .offset = pass.first_row * row_bytes, .bytes = formal.bytes};
      case Role::kLoss:
        return Leaf(pass.shard, 0);
      case Role::kScalars:
        return Whole(result_.slots.scalars, formal.bytes);
      case Role::kConstants:
        return Whole(result_.slots.constants[formal.index], formal.bytes);
      default:
        break;
    }
    return {};  // no such slot: the layout refuses it by name
  }

  void CallLayer(int template_index, Purpose purpose, int index, Pass& pass, bool forward) {
    const Layer& layer = graph_.layers[index];
    assembler_.Call(
        template_index, purpose, absl::StrCat(Name(purpose), " ", layer.name, " ", pass.name),
        [&](const Formal& formal) { return Bind(formal, layer, index, pass, forward); });
  }

  Pass NewPass(int shard, int64_t first_row, int number) const {
    Pass pass{.name = absl::StrCat("micro ", number), .first_row = first_row, .shard = shard};
    pass.boundaries.assign(graph_.layers.size(), -1);
    pass.saved.resize(graph_.layers.size());
    return pass;
  }

  void BuildTrain() {
    const int64_t rows = options_.global_batch / options_.data;
    const int64_t passes = rows / local_shards() / graph_.micro_batch;
    BeginProgram("train", rows, 1 + static_cast<int64_t>(trainable_.size()));
    for (const ParameterSet& set : graph_.sets) {
      trees_.emplace_back(assembler_, set, local_shards(), partial());
    }
    int number = 0;
    for (int shard = 0; shard < local_shards(); ++shard) {
      for (int64_t p = 0; p < passes; ++p, ++number) {
        Pass pass = NewPass(shard, number * graph_.micro_batch, number);
        Forward(pass);
        Backward(pass, p == 0, p + 1 == passes);
      }
    }
    AddNorms();
    AddFinish(static_cast<int64_t>(trainable_.size()));
    AddUpdates();
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .operands = {Whole(result_.slots.scalars, kScalarBytes)}});
  }

  void Forward(Pass& pass) {
    for (size_t l = 0; l < graph_.layers.size(); ++l) {
      const LayerTemplates& templates = graph_.layers[l].templates;
      if (templates.forward >= 0)
        CallLayer(templates.forward, Purpose::kForward, static_cast<int>(l), pass, true);
    }
  }

  // `first`, `last`: of the micro-batches of the virtual shard.
  void Backward(Pass& pass, bool first, bool last) {
    std::vector<int> users(graph_.sets.size(), 0);  // layers whose backward is still to come
    for (const Layer& layer : graph_.layers) {
      for (const int set : layer.sets) ++users[set];
    }
    std::vector<bool> begun(graph_.sets.size(), !first);
    for (int l = static_cast<int>(graph_.layers.size()) - 1; l >= 0; --l) {
      const Layer& layer = graph_.layers[l];
      for (const int set : layer.sets) {
        if (graph_.sets[set].trainable && !begun[set]) trees_[set].BeginLeaf();
        begun[set] = true;
      }
      CallLayer(layer.templates.backward, Purpose::kBackward, l, pass, false);
      for (const int set : layer.sets) {
        if (--users[set] > 0 || !last || !graph_.sets[set].trainable) continue;
        trees_[set].EndLeaf();
        if (pass.shard + 1 == local_shards()) Reduce(set);
      }
    }
  }

  void Reduce(int set) {
    if (!distributed()) return;
    const int64_t bytes = graph_.sets[set].bytes();
    Operand in = Whole(trees_[set].Root(), bytes);
    in.partial = partial();
    const Operand out = options_.shard_optimizer ? OwnPart(in.slot, bytes) : Whole(in.slot, bytes);
    const CollectiveOp op =
        options_.shard_optimizer ? CollectiveOp::kReduceScatter : CollectiveOp::kAllReduce;
    assembler_.Collective({.op = op, .group = Group::kData, .bytes = out.bytes}, Purpose::kReduce,
                          Stream::kGradients, absl::StrCat("reduce ", graph_.sets[set].name), in,
                          out, options_.scratch);
  }

  // Σ gradient² of this rank's ranges, one per set and virtual shard, in the order in which
  // reductions end.
  void AddNorms() {
    for (auto s = trainable_.rbegin(); s != trainable_.rend(); ++s) {
      const ParameterSet& set = graph_.sets[*s];
      if (!set.counted_in_norm) continue;
      const int64_t column = 1 + (trainable_.rend() - s - 1);
      const int64_t range = set.bytes() / options_.virtual_shards;
      for (int shard = 0; shard < local_shards(); ++shard) {
        Operand gradient = OwnPart(trees_[*s].Root(), set.bytes(), shard * range, range);
        Operand leaf = Leaf(shard, column);
        leaf.access = Access::kWrite;
        assembler_.CallOp({.kind = OpKind::kSumSquares, .ints = {range / 4}, .flops = range / 2.0},
                          Purpose::kNorm, absl::StrCat("norm ", set.name, " range ", shard),
                          {gradient, leaf});
      }
    }
  }

  // Gathers the leaves and derives loss, norm, clip factor and whether to apply.
  void AddFinish(int64_t sets) {
    if (distributed()) {
      const Operand own = OwnPart(leaves_, leaves_bytes());
      assembler_.Collective({.op = CollectiveOp::kAllGather,
                             .group = Group::kData,
                             .dtype = DType::kF64,
                             .bytes = own.bytes},
                            Purpose::kReduce, Stream::kGradients,
                            sets > 0 ? "gather losses and norms" : "gather losses", own,
                            Whole(leaves_, leaves_bytes()), options_.scratch);
    }
    const int64_t results = (sets > 0 ? 5 : 1) * 8;  // kLoss, or kLoss … kClipped
    assembler_.CallOp({.kind = OpKind::kFinishStep,
                       .ints = {options_.virtual_shards, sets},
                       .floats = {options_.gradient_clip}},
                      Purpose::kNorm, "finish",
                      {Whole(leaves_, leaves_bytes()),
                       {.slot = result_.slots.scalars, .bytes = ScalarOffset(Scalar::kLoss)},
                       {.slot = result_.slots.scalars,
                        .offset = ScalarOffset(Scalar::kLoss),
                        .bytes = results,
                        .access = Access::kWrite}});
  }

  void AddUpdates() {
    assembler_.Add(
        {.mechanism = Mechanism::kSignal, .purpose = Purpose::kSnapshot, .label = "snapshot gate"});
    for (const int s : trainable_) {
      const ParameterSet& set = graph_.sets[s];
      assembler_.Call(update_templates_[s], Purpose::kUpdate, absl::StrCat("update ", set.name),
                      [&](const Formal& formal) { return BindUpdate(formal, s); });
      assembler_.last().predicate = Predicate{Scalar::kApply};
      if (!sharded()) continue;
      Operand own = OwnPart(result_.slots.parameters[s], set.bytes());
      Operand whole = Whole(own.slot, set.bytes());
      own.version = whole.version = 1;
      assembler_.Collective(
          {.op = CollectiveOp::kAllGather, .group = Group::kData, .bytes = own.bytes},
          Purpose::kGather, Stream::kParameters, absl::StrCat("gather ", set.name), own, whole,
          options_.scratch);
    }
  }

  Operand BindUpdate(const Formal& formal, int s) const {
    const int64_t bytes = graph_.sets[s].bytes();
    const auto part = [&](int slot) {
      return sharded() ? OwnPart(slot, bytes) : Whole(slot, bytes);
    };
    switch (formal.role) {
      case Role::kParameters: {
        Operand operand = part(result_.slots.parameters[s]);
        operand.version = formal.index;
        return operand;
      }
      case Role::kState: {
        Operand operand = Whole(result_.slots.moments[s][formal.index % 2], formal.bytes);
        operand.version = formal.index / 2;
        return operand;
      }
      case Role::kGradients:
        return part(trees_[s].Root());
      case Role::kScalars:
        return Whole(result_.slots.scalars, formal.bytes);
      default:
        return {};
    }
  }

  void BuildEvaluate() {
    const EvaluateShape shape =
        ShapeOfEvaluation(options_.evaluate_batch, options_.virtual_shards, graph_.micro_batch);
    BeginProgram("evaluate", shape.rows * local_shards(), 1);
    int number = 0;
    for (int shard = 0; shard < local_shards(); ++shard) {
      for (int64_t row = 0; row < shape.rows; row += graph_.micro_batch, ++number) {
        Pass pass = NewPass(shard, number * graph_.micro_batch, number);
        for (size_t l = 0; l < graph_.layers.size(); ++l) {
          CallLayer(graph_.layers[l].templates.evaluate, Purpose::kForward, static_cast<int>(l),
                    pass, true);
        }
      }
    }
    AddFinish(0);
    assembler_.Add({.mechanism = Mechanism::kSignal,
                    .purpose = Purpose::kReport,
                    .label = "report",
                    .operands = {Whole(result_.slots.scalars, kScalarBytes)}});
  }

  LayerGraph graph_;
  const DataParallelOptions& options_;
  DataParallelPrograms result_;
  Assembler assembler_;
  std::vector<int> trainable_;         // indices of sets
  std::vector<int> update_templates_;  // per set
  std::vector<GradientTree> trees_;    // per set
  int64_t columns_ = 1;
  int tokens_ = -1, targets_ = -1, leaves_ = -1;
};

}  // namespace

EvaluateShape ShapeOfEvaluation(int64_t evaluate_batch, int virtual_shards, int64_t micro_batch) {
  const int64_t sequences = common::CeilDivide(evaluate_batch, virtual_shards);
  return {sequences, common::RoundUp(sequences, micro_batch)};
}

absl::StatusOr<DataParallelPrograms> BuildDataParallel(LayerGraph graph,
                                                       const UpdateEmitter& update,
                                                       const DataParallelOptions& options) {
  RETURN_IF_ERROR(CheckOptions(graph, options));
  return Builder(std::move(graph), options).Run(update);
}

}  // namespace strata::program
