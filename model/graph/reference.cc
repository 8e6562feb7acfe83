#include "model/graph/reference.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/check.h"

namespace strata::model {
namespace {

using Numbers = Reference::Numbers;

// One node at work.
class Step {
 public:
  Step(Reference& reference, const Node& node)
      : r_(reference), g_(reference.graph), n_(node), rows_(reference.rows) {}

  void Embed() {
    const int64_t c = Width(n_.out[0]);
    for (int64_t i = 0; i < rows_ * c; ++i) {
      Out()[i] = n_.attributes.scale * W()[Whole(0, i / c) * c + i % c];
    }
  }
  void EmbedGradient() {
    const int64_t c = Width(n_.in[1]);
    for (int64_t i = 0; i < rows_ * c; ++i) {
      Dw()[Whole(0, i / c) * c + i % c] += n_.attributes.scale * In(1)[i];
    }
  }
  void Positions() {
    const int64_t c = Width(n_.out[0]);
    for (int64_t i = 0; i < rows_ * c; ++i) {
      Out()[i] = In(0)[i] + W()[Position(1, i / c) * c + i % c];
    }
  }
  void PositionsGradient() {
    const int64_t c = Width(n_.in[0]);
    for (int64_t i = 0; i < rows_ * c; ++i) Dw()[Position(1, i / c) * c + i % c] += In(0)[i];
  }
  void Norm() {
    const int64_t c = Width(n_.in[0]);
    for (int64_t r = 0; r < rows_; ++r) {
      const Moments m = MomentsOf(&In(0)[r * c], c);
      Numbers& statistic = r_.values[n_.out[1]];
      if (IsLayerNorm()) {
        statistic[2 * r] = m.mean;
        statistic[2 * r + 1] = m.rstd;
      } else {
        statistic[r] = m.rstd;
      }
      for (int64_t i = 0; i < c; ++i) {
        const double bias = IsLayerNorm() ? r_.weights[n_.second][i] : 0;
        Out()[r * c + i] = (In(0)[r * c + i] - m.mean) * m.rstd * Gain(W(), i) + bias;
      }
    }
  }
  void NormBackward() {
    const int64_t c = Width(n_.in[1]);
    for (int64_t r = 0; r < rows_; ++r) {
      const double* before = n_.in.size() > 3 ? &In(3)[r * c] : nullptr;
      const double mean = IsLayerNorm() ? In(2)[2 * r] : 0;
      const double rstd = IsLayerNorm() ? In(2)[2 * r + 1] : In(2)[r];
      Backward({mean, rstd}, c, &In(0)[r * c], &In(1)[r * c], W(), before, &Out()[r * c], Dw());
      for (int64_t i = 0; IsLayerNorm() && i < c; ++i) {
        r_.weight_gradients[n_.second][i] += In(0)[r * c + i];
      }
    }
  }
  void HeadNorm() {
    Out() = In(0);
    ForHeads([&](int64_t row, int64_t head, int64_t at, WeightId weight) {
      const int64_t d = n_.attributes.head_size;
      const Moments m = MomentsOf(&In(0)[at], d);
      r_.values[n_.out[1]][row * Normed() + head] = m.rstd;
      for (int64_t i = 0; i < d; ++i) {
        Out()[at + i] = In(0)[at + i] * m.rstd * Gain(r_.weights[weight], i);
      }
    });
  }
  void HeadNormBackward() {
    Out() = In(0);
    ForHeads([&](int64_t row, int64_t head, int64_t at, WeightId weight) {
      Backward({0, In(2)[row * Normed() + head]}, n_.attributes.head_size, &In(0)[at], &In(1)[at],
               r_.weights[weight], nullptr, &Out()[at], r_.weight_gradients[weight]);
    });
  }
  void Bias() {
    const int64_t c = Width(n_.in[0]);
    for (int64_t i = 0; i < rows_ * c; ++i) Out()[i] = In(0)[i] + W()[i % c];
  }
  void BiasGradient() {
    const int64_t c = Width(n_.in[0]);
    for (int64_t i = 0; i < rows_ * c; ++i) Dw()[i % c] += In(0)[i];
  }
  // c (+)= a · b with a [m, k] and b [k, n] at strides.
  static void Product(int64_t m, int64_t n, int64_t k, const Numbers& a, int64_t a_row, int64_t a_k,
                      const Numbers& b, int64_t b_k, int64_t b_column, Numbers& c) {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        for (int64_t l = 0; l < k; ++l) {
          c[i * n + j] += a[i * a_row + l * a_k] * b[l * b_k + j * b_column];
        }
      }
    }
  }
  void Linear() {
    const int64_t k = Width(n_.in[0]), n = Width(n_.out[0]);
    Product(rows_, n, k, In(0), k, 1, W(), 1, k, Out());
  }
  void LinearInputGradient() {
    const int64_t k = Width(n_.in[0]), n = Width(n_.out[0]);
    if (n_.in.size() > 1) Out() = In(1);
    Product(rows_, n, k, In(0), k, 1, W(), n, 1, Out());
  }
  void LinearWeightGradient() {
    const int64_t x = Width(n_.in[0]), dy = Width(n_.in[1]);
    Product(dy, x, rows_, In(1), 1, dy, In(0), x, 1, Dw());
  }
  void Rope() {
    const Attributes& a = n_.attributes;
    const RotaryAngles angles = Angles();
    const int64_t width = Width(n_.in[0]);
    const int64_t half = static_cast<int64_t>(angles.frequencies.size());
    Out() = In(0);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t head = 0; head < a.heads + a.kv_heads; ++head) {
        for (int64_t i = 0; i < half; ++i) {
          const double turn = static_cast<double>(Position(1, r)) * angles.frequencies[i];
          const double c = std::cos(turn) * angles.magnitude;
          const double s = std::sin(turn) * angles.magnitude * (a.inverse ? -1 : 1);
          const int64_t at = r * width + head * a.head_size + i;
          Out()[at] = In(0)[at] * c - In(0)[at + half] * s;
          Out()[at + half] = In(0)[at + half] * c + In(0)[at] * s;
        }
      }
    }
  }
  void Attention() {
    const Attributes& a = n_.attributes;
    for (int64_t head = 0; head < a.heads; ++head) {
      for (int64_t r = 0; r < rows_; ++r) {
        double sum = 0;
        for (int64_t k = First(1, r); k <= r; ++k) sum += std::exp(Capped(Score(0, head, r, k)));
        r_.values[n_.out[1]][r * a.heads + head] = std::log(sum);
        for (int64_t k = First(1, r); k <= r; ++k) {
          const double share = std::exp(Capped(Score(0, head, r, k))) / sum;
          for (int64_t i = 0; i < a.head_size; ++i) {
            Out()[(r * a.heads + head) * a.head_size + i] += share * In(0)[Value(head, k) + i];
          }
        }
      }
    }
  }
  void AttentionBackward() {
    const Attributes& a = n_.attributes;
    for (int64_t head = 0; head < a.heads; ++head) {
      for (int64_t r = 0; r < rows_; ++r) {
        const int64_t out = (r * a.heads + head) * a.head_size;
        double whole = 0;
        for (int64_t i = 0; i < a.head_size; ++i) whole += In(0)[out + i] * In(2)[out + i];
        for (int64_t k = First(4, r); k <= r; ++k) {
          const double capped = Capped(Score(1, head, r, k));
          const double share = std::exp(capped - In(3)[r * a.heads + head]);
          double part = 0;
          for (int64_t i = 0; i < a.head_size; ++i) {
            part += In(0)[out + i] * In(1)[Value(head, k) + i];
            Out()[Value(head, k) + i] += share * In(0)[out + i];
          }
          const double dscore = share * (part - whole) * CapSlope(capped) * ScoreScale();
          for (int64_t i = 0; i < a.head_size; ++i) {
            Out()[Query(head, r) + i] += dscore * In(1)[Key(head, k) + i];
            Out()[Key(head, k) + i] += dscore * In(1)[Query(head, r) + i];
          }
        }
      }
    }
  }
  void Glu() {
    const int64_t f = Width(n_.out[0]);
    for (int64_t i = 0; i < rows_ * f; ++i) {
      const double gate = In(0)[i / f * 2 * f + i % f], up = In(0)[i / f * 2 * f + f + i % f];
      Out()[i] = F(gate).value * up;
    }
  }
  void GluBackward() {
    const int64_t f = Width(n_.in[0]);
    for (int64_t i = 0; i < rows_ * f; ++i) {
      const int64_t at = i / f * 2 * f + i % f;
      const Activated gate = F(In(1)[at]);
      Out()[at] = In(0)[i] * In(1)[at + f] * gate.slope;
      Out()[at + f] = In(0)[i] * gate.value;
    }
  }
  void Scale() {
    for (size_t i = 0; i < Out().size(); ++i) Out()[i] = In(0)[i] * n_.attributes.scale;
  }
  // Calls with places of h, of the output's gradient (or the output), and of B, for all that meet.
  template <typename Visit>
  void Adapted(int64_t h_width, int64_t y_width, const Visit& visit) const {
    const int64_t rank = g_.weights[n_.weight].columns();
    int64_t row = 0;  // of B
    for (const AdaptedColumns& to : n_.attributes.adapted) {
      for (int64_t i = 0; i < rows_ * to.rows * rank; ++i) {
        const int64_t r = i / rank / to.rows, column = i / rank % to.rows, k = i % rank;
        visit(r * h_width + to.first + k, r * y_width + to.column + column,
              (row + column) * rank + k);
      }
      row += to.rows;
    }
  }
  void Adapt() {
    Out() = In(1);
    Adapted(Width(n_.in[0]), Width(n_.out[0]),
            [&](int64_t h, int64_t y, int64_t b) { Out()[y] += In(0)[h] * W()[b]; });
  }
  void AdaptInputGradient() {
    Adapted(Width(n_.out[0]), Width(n_.in[0]),
            [&](int64_t h, int64_t y, int64_t b) { Out()[h] += In(0)[y] * W()[b]; });
  }
  void AdaptWeightGradient() {
    Adapted(Width(n_.in[0]), Width(n_.in[1]),
            [&](int64_t h, int64_t y, int64_t b) { Dw()[b] += In(1)[y] * In(0)[h]; });
  }
  void Activate() {
    for (size_t i = 0; i < Out().size(); ++i) Out()[i] = F(In(0)[i]).value;
  }
  void ActivateBackward() {
    for (size_t i = 0; i < Out().size(); ++i) Out()[i] = In(0)[i] * F(In(1)[i]).slope;
  }
  void Softcap() {
    for (size_t i = 0; i < Out().size(); ++i) Out()[i] = Capped(In(0)[i]);
  }
  void Add() {
    for (size_t i = 0; i < Out().size(); ++i) Out()[i] = In(0)[i] + In(1)[i];
  }
  void Loss(bool gradient) {
    const int64_t v = Width(n_.in[0]);
    for (int64_t r = 0; r < rows_; ++r) {
      const int64_t target = Whole(1, r);
      if (target < 0) continue;
      double sum = 0;
      for (int64_t i = 0; i < v; ++i) sum += std::exp(Capped(In(0)[r * v + i]));
      r_.loss += std::log(sum) - Capped(In(0)[r * v + target]);
      for (int64_t i = 0; gradient && i < v; ++i) {
        const double capped = Capped(In(0)[r * v + i]);
        Out()[r * v + i] = (std::exp(capped) / sum - (i == target ? 1 : 0)) * CapSlope(capped);
      }
    }
  }

 private:
  const Numbers& In(size_t index) const { return r_.values[n_.in[index]]; }
  Numbers& Out() { return r_.values[n_.out[0]]; }
  const Numbers& W() const { return r_.weights[n_.weight]; }
  Numbers& Dw() { return r_.weight_gradients[n_.weight]; }
  int64_t Width(ValueId value) const { return g_.values[value].width; }
  int64_t Whole(size_t input, int64_t row) const { return std::lround(In(input)[row]); }
  // Of a row inside its document, by the node's input; without it, in the sequence.
  int64_t Position(size_t input, int64_t row) const {
    return input < n_.in.size() ? Whole(input, row) : row % r_.sequence;
  }

  bool IsLayerNorm() const { return n_.second >= 0; }
  double Gain(const Numbers& weight, int64_t i) const {
    return weight[i] + (n_.attributes.plus_one ? 1 : 0);
  }

  struct Moments {
    double mean = 0, rstd = 0;
  };
  // The mean is 0 where a norm has none.
  Moments MomentsOf(const double* x, int64_t count) const {
    Moments m;
    for (int64_t i = 0; IsCentred() && i < count; ++i) m.mean += x[i] / static_cast<double>(count);
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) squares += (x[i] - m.mean) * (x[i] - m.mean);
    m.rstd = 1 / std::sqrt(squares / static_cast<double>(count) + n_.attributes.epsilon);
    return m;
  }
  bool IsCentred() const { return n_.kind == NodeKind::kNorm && IsLayerNorm(); }
  // dx = before + rstd · (g − mean(g) where centred − n · mean(g · n)) with g = dy · gain.
  void Backward(const Moments& m, int64_t count, const double* dy, const double* x,
                const Numbers& weight, const double* before, double* dx, Numbers& dw) const {
    const bool centred = n_.kind == NodeKind::kNormBackward && IsLayerNorm();
    double mean = 0, along = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double g = dy[i] * Gain(weight, i) / static_cast<double>(count);
      if (centred) mean += g;
      along += g * (x[i] - m.mean) * m.rstd;
    }
    for (int64_t i = 0; i < count; ++i) {
      const double normed = (x[i] - m.mean) * m.rstd;
      const double inside = dy[i] * Gain(weight, i) - mean - normed * along;
      dx[i] = (before == nullptr ? 0 : before[i]) + m.rstd * inside;
      dw[i] += dy[i] * normed;
    }
  }

  int64_t Normed() const { return n_.attributes.heads + n_.attributes.kv_heads; }
  // Calls body(row, head, its first element, its weight) for query and key heads.
  template <typename Body>
  void ForHeads(const Body& body) const {
    const Attributes& a = n_.attributes;
    for (int64_t row = 0; row < rows_; ++row) {
      for (int64_t head = 0; head < Normed(); ++head) {
        body(row, head, Query(head, row), head < a.heads ? n_.weight : n_.second);
      }
    }
  }

  RotaryAngles Angles() const {
    const Attributes& a = n_.attributes;
    if (!r_.tables.empty()) return r_.tables[a.table];
    RotaryAngles plain;
    const int64_t width = a.rotary > 0 ? a.rotary : a.head_size;
    for (int64_t i = 0; i < width / 2; ++i) {
      plain.frequencies.push_back(
          std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(width)));
    }
    return plain;
  }

  // The first row that a row's scores are of, with positions from this input.
  int64_t First(size_t input, int64_t row) const {
    const int64_t window = n_.attributes.window;
    const int64_t before = Position(input, row);
    return row - (window > 0 ? std::min(before, window - 1) : before);
  }
  double ScoreScale() const {
    const Attributes& a = n_.attributes;
    return a.score_scale > 0 ? a.score_scale : 1 / std::sqrt(static_cast<double>(a.head_size));
  }
  double Capped(double x) const {
    const double cap = n_.attributes.softcap;
    return cap > 0 ? cap * std::tanh(x / cap) : x;
  }
  // Of Capped, by what it gave.
  double CapSlope(double capped) const {
    const double cap = n_.attributes.softcap;
    return cap > 0 ? 1 - capped * capped / (cap * cap) : 1;
  }

  struct Activated {
    double value = 0, slope = 0;
  };
  Activated F(double x) const {
    switch (n_.attributes.function) {
      case Function::kSilu: {
        const double sigmoid = 1 / (1 + std::exp(-x));
        return {x * sigmoid, sigmoid * (1 + x * (1 - sigmoid))};
      }
      case Function::kGeluTanh: {
        const double rate = std::sqrt(2 / std::numbers::pi);
        const double t = std::tanh(rate * (x + 0.044715 * x * x * x));
        const double inner = rate * (1 + 3 * 0.044715 * x * x);
        return {x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t * t) * inner / 2};
      }
      case Function::kGelu: {
        const double below = std::erfc(-x / std::numbers::sqrt2) / 2;
        const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
        return {x * below, below + x * density};
      }
    }
    return {};
  }

  // Places in a row's packed queries, keys and values.
  int64_t Query(int64_t head, int64_t row) const {
    const Attributes& a = n_.attributes;
    return (row * (a.heads + 2 * a.kv_heads) + head) * a.head_size;
  }
  int64_t Key(int64_t head, int64_t row) const {
    const Attributes& a = n_.attributes;
    return Query(a.heads + head * a.kv_heads / a.heads, row);
  }
  int64_t Value(int64_t head, int64_t row) const {
    return Key(head, row) + n_.attributes.kv_heads * n_.attributes.head_size;
  }
  double Score(size_t qkv, int64_t head, int64_t row, int64_t key) const {
    double sum = 0;
    for (int64_t i = 0; i < n_.attributes.head_size; ++i) {
      sum += In(qkv)[Query(head, row) + i] * In(qkv)[Key(head, key) + i];
    }
    return sum * ScoreScale();
  }

  Reference& r_;
  const Graph& g_;
  const Node& n_;
  const int64_t rows_;
};

void Execute(Step step, NodeKind kind) {
  switch (kind) {
    case NodeKind::kEmbed:
      return step.Embed();
    case NodeKind::kEmbedGradient:
      return step.EmbedGradient();
    case NodeKind::kPositions:
      return step.Positions();
    case NodeKind::kPositionsGradient:
      return step.PositionsGradient();
    case NodeKind::kNorm:
      return step.Norm();
    case NodeKind::kNormBackward:
      return step.NormBackward();
    case NodeKind::kHeadNorm:
      return step.HeadNorm();
    case NodeKind::kHeadNormBackward:
      return step.HeadNormBackward();
    case NodeKind::kLinear:
      return step.Linear();
    case NodeKind::kLinearInputGradient:
      return step.LinearInputGradient();
    case NodeKind::kLinearWeightGradient:
      return step.LinearWeightGradient();
    case NodeKind::kBias:
      return step.Bias();
    case NodeKind::kBiasGradient:
      return step.BiasGradient();
    case NodeKind::kRope:
      return step.Rope();
    case NodeKind::kAttention:
      return step.Attention();
    case NodeKind::kAttentionBackward:
      return step.AttentionBackward();
    case NodeKind::kGlu:
      return step.Glu();
    case NodeKind::kGluBackward:
      return step.GluBackward();
    case NodeKind::kActivate:
      return step.Activate();
    case NodeKind::kActivateBackward:
      return step.ActivateBackward();
    case NodeKind::kSoftcap:
      return step.Softcap();
    case NodeKind::kAdd:
      return step.Add();
    case NodeKind::kScale:
      return step.Scale();
    case NodeKind::kAdapt:
      return step.Adapt();
    case NodeKind::kAdaptInputGradient:
      return step.AdaptInputGradient();
    case NodeKind::kAdaptWeightGradient:
      return step.AdaptWeightGradient();
    case NodeKind::kLoss:
      return step.Loss(false);
    case NodeKind::kLossBackward:
      return step.Loss(true);
    case NodeKind::kNormReplay:
    case NodeKind::kHeadNormReplay:
    case NodeKind::kAddNorm:
    case NodeKind::kRedistribute:
      STRATA_CHECK(false);  // what passes make, and of tensor groups
  }
}

}  // namespace

Reference::Reference(const Graph& graph, int64_t batch, int64_t sequence)
    : graph(graph), sequence(sequence), rows(batch * sequence) {
  STRATA_CHECK(graph.degree == 1);
  for (const Value& value : graph.values) values.emplace_back(rows * value.width);
  for (const Weight& weight : graph.weights) weights.emplace_back(weight.tensor.elements());
  weight_gradients = weights;
}

void Reference::Forward() {
  loss = 0;
  for (NodeId id = 0; id < graph.forward_nodes; ++id) {
    for (const ValueId out : graph.nodes[id].out) {
      std::fill(values[out].begin(), values[out].end(), 0);
    }
    Execute(Step(*this, graph.nodes[id]), graph.nodes[id].kind);
  }
}

void Reference::Backward() {
  for (size_t id = graph.forward_nodes; id < graph.nodes.size(); ++id) {
    Execute(Step(*this, graph.nodes[id]), graph.nodes[id].kind);
  }
}

}  // namespace strata::model
