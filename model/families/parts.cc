#include "model/families/parts.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/rope_table.h"

namespace strata::model {
namespace {

using program::Initializer;
using program::Role;
using program::TensorSpec;

Weight Matrix(std::string name, int64_t rows, int64_t columns, int cut, double std) {
  Weight weight;
  weight.tensor.name = std::move(name);
  weight.tensor.shape = {rows, columns};
  weight.tensor.initializer = {Initializer::Kind::kNormal, std};
  weight.tensor.decay = true;
  weight.cut = cut;
  return weight;
}

Weight Vector(std::string name, int64_t size, double value) {
  Weight weight;
  weight.tensor.name = std::move(name);
  weight.tensor.shape = {size};
  weight.tensor.initializer = {Initializer::Kind::kConstant, value};
  return weight;
}

Weight Fused(Weight weight, std::vector<TensorSpec::Part> parts) {
  weight.tensor.parts = std::move(parts);
  return weight;
}

// Of projections onto the residual stream.
double ResidualStd(const ModelSpec& spec) {
  return spec.initial_std / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

// The weight of a norm that only divides.
double UnitOf(const NormOptions& norm) { return norm.plus_one ? 0 : 1; }

Function FunctionOf(Activation activation) {
  switch (activation) {
    case Activation::kSilu:
      return Function::kSilu;
    case Activation::kGeluTanh:
      return Function::kGeluTanh;
    case Activation::kGelu:
      return Function::kGelu;
  }
  return Function::kSilu;
}

double ScoreScale(const ModelSpec& spec) {
  const bool usual =
      spec.query_scale == 0 || spec.query_scale == static_cast<double>(spec.head_size);
  return usual ? 0 : 1 / std::sqrt(spec.query_scale);
}

bool HasLocalTable(const ModelSpec& spec, bool window) {
  return window && spec.local_rope_theta > 0;
}

ValueId GivenPositions(Graph& graph, Role role) {
  return graph.Given(kRowPositions, 1, Layout::kWhole, role);
}

Graph Embedding(const ModelSpec& spec, const ForwardOptions& options, const Layers& layers) {
  Graph g("embedding", options.degree, options.type);
  const ModelNames& names = layers.names;
  const WeightId table =
      g.Use(Matrix(names.embedding, spec.vocab, spec.hidden, 0, spec.initial_std));
  const ValueId tokens = g.Given("tokens", 1, Layout::kWhole, Role::kTokens);
  const ValueId embedded = Embed(g, tokens, table, layers.embedding_scale, "embedding");
  g.output = g.As(embedded, Layout::kRows);
  if (names.positions.empty()) return g;
  Weight learned = Matrix(names.positions, spec.context, spec.hidden, -1, spec.initial_std);
  learned.set = "positions";
  const WeightId w = g.Use(std::move(learned));
  ValueId positions = -1;
  if (options.documents) {
    positions = GivenPositions(g, Role::kPositions);
  } else if (options.context > 1) {
    positions = GivenPositions(g, Role::kConstants);
  }
  g.output = AddPositions(g, g.output, positions, w, "positioned");
  return g;
}

Graph Head(const ModelSpec& spec, const ForwardOptions& options, const Layers& layers) {
  Graph g("head", options.degree, options.type);
  const NormOptions norm_options{spec.norm_epsilon, layers.norms_add_one};
  Weight norm = Vector(layers.names.final_norm + ".weight", spec.hidden, UnitOf(norm_options));
  norm.set = "norm";
  const WeightId w_norm = g.Use(std::move(norm));
  WeightId w_bias = -1;
  if (layers.layer_norm) {
    Weight bias = Vector(layers.names.final_norm + ".bias", spec.hidden, 0);
    bias.set = "norm";
    w_bias = g.Use(std::move(bias));
  }
  const bool tied = spec.tied_embeddings;
  Weight table = Matrix(tied ? layers.names.embedding : layers.names.head, spec.vocab, spec.hidden,
                        0, spec.initial_std);
  table.set = tied ? "embedding" : "lm_head";
  const WeightId w = g.Use(std::move(table));
  const ValueId x = g.input = g.Given("input", spec.hidden, Layout::kRows, Role::kInput);
  const ValueId targets = g.Given("targets", 1, Layout::kWhole, Role::kTargets);
  const ValueId normed = layers.layer_norm
                             ? LayerNorm(g, x, w_norm, w_bias, spec.norm_epsilon, "normed", "rstd")
                             : Norm(g, x, w_norm, norm_options, "normed", "rstd");
  const ValueId logits = g.logits = Linear(g, normed, w, "logits");
  g.values[logits].streamed = true;
  if (spec.logit_softcap > 0) g.logits = Softcap(g, logits, spec.logit_softcap, "capped");
  Loss(g, logits, targets, spec.logit_softcap);
  return g;
}

}  // namespace

Block::Block(const ModelSpec& spec, const ForwardOptions& options, bool window, BlockNames names,
             bool norms_add_one)
    : spec_(spec),
      options_(options),
      window_(window),
      names_(std::move(names)),
      norm_{spec.norm_epsilon, norms_add_one},
      shared_(options.degree > spec.kv_heads),
      // Of shared heads each rank works with one.
      heads_{spec.heads, shared_ ? options.degree : spec.kv_heads, spec.head_size},
      graph_("block", options.degree, options.type) {}

WeightId Block::UseWhole(const std::string& name, int64_t size, double value) {
  Weight weight = Vector(name, size, value);
  weight.set = ".norms";
  return graph_.Use(std::move(weight));
}

WeightId Block::UseNorm(const std::string& name) {
  return UseWhole(name + ".weight", spec_.hidden, UnitOf(norm_));
}

WeightId Block::UseBias(const std::string& name) {
  return UseWhole(name + ".bias", spec_.hidden, 0);
}

void Block::UseAttention() {
  const int64_t q = spec_.attention_width(), kv = spec_.kv_heads * spec_.head_size;
  const int64_t c = spec_.hidden;
  const BlockNames& n = names_;
  const double std = spec_.initial_std;
  const auto parts = [&](const char* ending, bool all) {
    std::vector<TensorSpec::Part> of = {{n.k + ending, kv}, {n.v + ending, kv}};
    if (all) of.insert(of.begin(), {n.q + ending, q});
    return of;
  };
  constexpr char kWeight[] = ".weight", kBias[] = ".bias";
  const auto use_shared = [&](Weight weight, const char* ending) {
    weight.set = ".shared_heads";
    return graph_.Use(Fused(std::move(weight), parts(ending, false)));
  };
  const auto use_columns = [&](Weight weight) {
    weight.cut = 0;
    return graph_.Use(std::move(weight));
  };
  if (shared_) {
    qkv_ = graph_.Use(Matrix(n.q + kWeight, q, c, 0, std));
    kv_ = use_shared(Matrix(n.kv + kWeight, 2 * kv, c, -1, std), kWeight);
  } else {
    qkv_ = graph_.Use(Fused(Matrix(n.qkv + kWeight, q + 2 * kv, c, 0, std), parts(kWeight, true)));
  }
  o_ = graph_.Use(Matrix(n.o + kWeight, c, q, 1, ResidualStd(spec_)));
  if (spec_.attention_bias && shared_) {
    qkv_bias_ = use_columns(Vector(n.q + kBias, q, 0));
    kv_bias_ = use_shared(Vector(n.kv + kBias, 2 * kv, 0), kBias);
  } else if (spec_.attention_bias) {
    qkv_bias_ = use_columns(Fused(Vector(n.qkv + kBias, q + 2 * kv, 0), parts(kBias, true)));
  }
}

void Block::UseFeedForward(bool gated) {
  gated_ = gated;
  const int64_t f = spec_.ffn, c = spec_.hidden;
  const BlockNames& n = names_;
  const auto use_up = [&](Weight weight, const char* ending) {
    weight.cut = 0;
    if (gated) weight = Fused(std::move(weight), {{n.gate + ending, f}, {n.up + ending, f}});
    return graph_.Use(std::move(weight));
  };
  const std::string up = gated ? n.gate_up : n.up;
  const int64_t rows = gated ? 2 * f : f;
  up_ = use_up(Matrix(up + ".weight", rows, c, 0, spec_.initial_std), ".weight");
  down_ = graph_.Use(Matrix(n.down + ".weight", c, f, 1, ResidualStd(spec_)));
  if (spec_.feed_forward_bias) up_bias_ = use_up(Vector(up + ".bias", rows, 0), ".bias");
}

void Block::UseOutputBiases() {
  if (spec_.output_bias) o_bias_ = UseBias(names_.o);
  if (spec_.feed_forward_bias) down_bias_ = UseBias(names_.down);
}

void Block::UseHeadNorms() {
  q_norm_ = UseWhole(names_.q_norm + ".weight", spec_.head_size, UnitOf(norm_));
  k_norm_ = UseWhole(names_.k_norm + ".weight", spec_.head_size, UnitOf(norm_));
}

ValueId Block::Input() {
  return graph_.input = graph_.Given("input", spec_.hidden, Layout::kRows, Role::kInput);
}

ValueId Block::RmsNorm(ValueId x, WeightId weight, const std::string& name,
                       const std::string& statistic) {
  return Norm(graph_, x, weight, norm_, name, statistic);
}

ValueId Block::LayerNorm(ValueId x, WeightId weight, WeightId bias, const std::string& name,
                         const std::string& statistic) {
  return model::LayerNorm(graph_, x, weight, bias, spec_.norm_epsilon, name, statistic);
}

ValueId Block::Projected(ValueId x) {
  constexpr char kName[] = "projected";
  if (shared_) {
    const ValueId y = LinearWithShared(graph_, x, qkv_, kv_, spec_.kv_heads, kName);
    if (qkv_bias_ < 0) return y;
    return BiasWithShared(graph_, y, qkv_bias_, kv_bias_, spec_.kv_heads, kName);
  }
  const ValueId y = Linear(graph_, x, qkv_, kName);
  return qkv_bias_ < 0 ? y : Bias(graph_, y, qkv_bias_, kName);
}

ValueId Block::Written(ValueId x, WeightId weight, WeightId bias, const std::string& name) {
  const ValueId y = Linear(graph_, x, weight, name);
  return bias < 0 ? y : Bias(graph_, y, bias, name);
}

ValueId Block::Attention(ValueId x, bool rotary) {
  ValueId qkv = Projected(x);
  if (q_norm_ >= 0) {
    qkv = HeadNorm(graph_, qkv, q_norm_, k_norm_, heads_, norm_, "heads", "heads_rstd");
  }
  const ValueId positions = options_.documents ? GivenPositions(graph_, Role::kPositions) : -1;
  if (rotary) {
    const RopeOptions options{HasLocalTable(spec_, window_) ? 1 : 0, spec_.rotary_size};
    qkv = Rope(graph_, qkv, positions, heads_, options, "qkv");
  }
  graph_.values[qkv].name = "qkv";
  const AttentionOptions options{.window = window_ ? spec_.sliding_window : 0,
                                 .softcap = spec_.attention_softcap,
                                 .scale = ScoreScale(spec_)};
  const ValueId attention =
      model::Attention(graph_, qkv, positions, heads_, options, "attention", "log_sum_exp");
  return Written(attention, o_, o_bias_, "attended");
}

ValueId Block::FeedForward(ValueId x) {
  const std::string name = gated_ ? "gate_up" : "up";
  ValueId up = Linear(graph_, x, up_, name);
  if (up_bias_ >= 0) up = Bias(graph_, up, up_bias_, name);
  const Function function = FunctionOf(spec_.activation);
  const ValueId activation = gated_ ? Glu(graph_, up, function, "activation")
                                    : Activate(graph_, up, function, "activation");
  return Written(activation, down_, down_bias_, "down");
}

ValueId Block::Add(ValueId x, ValueId branch, const std::string& name) {
  return model::Add(graph_, x, branch, name);
}

Graph Block::Take(ValueId output) && {
  graph_.output = output;
  return std::move(graph_);
}

ModelGraph MakeModel(const ModelSpec& spec, const ForwardOptions& options, const Layers& layers) {
  ModelGraph model;
  model.graphs.push_back(Embedding(spec, options, layers));
  model.layers.push_back({"embedding", "", 0});
  int of[2] = {-1, -1};  // the graph of blocks without, with a window
  for (int64_t i = 0; i < spec.layers; ++i) {
    const bool window = spec.window(i) > 0;
    if (of[window] < 0) {
      of[window] = static_cast<int>(model.graphs.size());
      model.graphs.push_back(layers.block(spec, options, window));
    }
    model.layers.push_back(
        {absl::StrCat("layers.", i), absl::StrCat(layers.names.blocks, i, "."), of[window], i});
  }
  model.layers.push_back({"head", "", static_cast<int>(model.graphs.size())});
  model.graphs.push_back(Head(spec, options, layers));
  const int64_t row_bytes = spec.rotated() * 4;
  if (!layers.names.positions.empty()) {
    if (options.context > 1 && !options.documents) {
      model.constants.push_back({kRowPositions, 4, true});
    }
  } else {
    model.constants.push_back({kRopeTable, row_bytes});
    if (HasLocalTable(spec, of[1] >= 0)) model.constants.push_back({kLocalRopeTable, row_bytes});
  }
  return model;
}

}  // namespace strata::model
