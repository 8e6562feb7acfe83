#include "model/graph/reference.h"

#include <algorithm>
#include <cmath>

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
    for (int64_t i = 0; i < rows_ * c; ++i) Out()[i] = W()[Whole(0, i / c) * c + i % c];
  }
  void EmbedGradient() {
    const int64_t c = Width(n_.in[1]);
    for (int64_t i = 0; i < rows_ * c; ++i) Dw()[Whole(0, i / c) * c + i % c] += In(1)[i];
  }
  void Norm() {
    const int64_t c = Width(n_.in[0]);
    for (int64_t r = 0; r < rows_; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < c; ++i) squares += In(0)[r * c + i] * In(0)[r * c + i];
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(c) + n_.attributes.epsilon);
      r_.values[n_.out[1]][r] = rstd;
      for (int64_t i = 0; i < c; ++i) Out()[r * c + i] = In(0)[r * c + i] * rstd * W()[i];
    }
  }
  void NormBackward() {
    const int64_t c = Width(n_.in[1]);
    for (int64_t r = 0; r < rows_; ++r) {
      const double* dy = &In(0)[r * c];
      const double* x = &In(1)[r * c];
      const double rstd = In(2)[r];
      double mean = 0;
      for (int64_t i = 0; i < c; ++i) mean += dy[i] * W()[i] * x[i] / static_cast<double>(c);
      for (int64_t i = 0; i < c; ++i) {
        const double before = n_.in.size() > 3 ? In(3)[r * c + i] : 0;
        Out()[r * c + i] = before + rstd * (dy[i] * W()[i] - x[i] * rstd * rstd * mean);
        Dw()[i] += dy[i] * x[i] * rstd;
      }
    }
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
    Product(rows_, n, k, In(0), k, 1, W(), n, 1, Out());
  }
  void LinearWeightGradient() {
    const int64_t x = Width(n_.in[0]), dy = Width(n_.in[1]);
    Product(dy, x, rows_, In(1), 1, dy, In(0), x, 1, Dw());
  }
  void Rope() {
    const Attributes& a = n_.attributes;
    const int64_t width = Width(n_.in[0]), half = a.head_size / 2;
    Out() = In(0);
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t head = 0; head < a.heads + a.kv_heads; ++head) {
        for (int64_t i = 0; i < half; ++i) {
          const double turn = static_cast<double>(Position(1, r)) *
                              std::pow(1e4, -static_cast<double>(i) / static_cast<double>(half));
          const double c = std::cos(turn), s = std::sin(turn) * (a.inverse ? -1 : 1);
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
        for (int64_t k = r - Position(1, r); k <= r; ++k) sum += std::exp(Score(0, head, r, k));
        r_.values[n_.out[1]][r * a.heads + head] = std::log(sum);
        for (int64_t k = r - Position(1, r); k <= r; ++k) {
          const double share = std::exp(Score(0, head, r, k)) / sum;
          for (int64_t i = 0; i < a.head_size; ++i) {
            Out()[(r * a.heads + head) * a.head_size + i] += share * In(0)[Value(head, k) + i];
          }
        }
      }
    }
  }
  void AttentionBackward() {
    const Attributes& a = n_.attributes;
    const double scale = 1 / std::sqrt(static_cast<double>(a.head_size));
    for (int64_t head = 0; head < a.heads; ++head) {
      for (int64_t r = 0; r < rows_; ++r) {
        const int64_t out = (r * a.heads + head) * a.head_size;
        double whole = 0;
        for (int64_t i = 0; i < a.head_size; ++i) whole += In(0)[out + i] * In(2)[out + i];
        for (int64_t k = r - Position(4, r); k <= r; ++k) {
          const double share = std::exp(Score(1, head, r, k) - In(3)[r * a.heads + head]);
          double part = 0;
          for (int64_t i = 0; i < a.head_size; ++i) {
            part += In(0)[out + i] * In(1)[Value(head, k) + i];
            Out()[Value(head, k) + i] += share * In(0)[out + i];
          }
          const double dscore = share * (part - whole) * scale;
          for (int64_t i = 0; i < a.head_size; ++i) {
            Out()[Query(head, r) + i] += dscore * In(1)[Key(head, k) + i];
            Out()[Key(head, k) + i] += dscore * In(1)[Query(head, r) + i];
          }
        }
      }
    }
  }
  void Swiglu() {
    const int64_t f = Width(n_.out[0]);
    for (int64_t i = 0; i < rows_ * f; ++i) {
      const double gate = In(0)[i / f * 2 * f + i % f], up = In(0)[i / f * 2 * f + f + i % f];
      Out()[i] = gate / (1 + std::exp(-gate)) * up;
    }
  }
  void SwigluBackward() {
    const int64_t f = Width(n_.in[0]);
    for (int64_t i = 0; i < rows_ * f; ++i) {
      const int64_t at = i / f * 2 * f + i % f;
      const double gate = In(1)[at], up = In(1)[at + f];
      const double sigmoid = 1 / (1 + std::exp(-gate));
      Out()[at] = In(0)[i] * up * sigmoid * (1 + gate * (1 - sigmoid));
      Out()[at + f] = In(0)[i] * gate * sigmoid;
    }
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
      for (int64_t i = 0; i < v; ++i) sum += std::exp(In(0)[r * v + i]);
      r_.loss += std::log(sum) - In(0)[r * v + target];
      for (int64_t i = 0; gradient && i < v; ++i) {
        Out()[r * v + i] = std::exp(In(0)[r * v + i]) / sum - (i == target ? 1 : 0);
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
    return sum / std::sqrt(static_cast<double>(n_.attributes.head_size));
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
    case NodeKind::kNorm:
      return step.Norm();
    case NodeKind::kNormBackward:
      return step.NormBackward();
    case NodeKind::kLinear:
      return step.Linear();
    case NodeKind::kLinearInputGradient:
      return step.LinearInputGradient();
    case NodeKind::kLinearWeightGradient:
      return step.LinearWeightGradient();
    case NodeKind::kRope:
      return step.Rope();
    case NodeKind::kAttention:
      return step.Attention();
    case NodeKind::kAttentionBackward:
      return step.AttentionBackward();
    case NodeKind::kSwiglu:
      return step.Swiglu();
    case NodeKind::kSwigluBackward:
      return step.SwigluBackward();
    case NodeKind::kAdd:
      return step.Add();
    case NodeKind::kLoss:
      return step.Loss(false);
    case NodeKind::kLossBackward:
      return step.Loss(true);
    case NodeKind::kNormReplay:
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
