#include "planner/performance/layer_cost.h"

#include <algorithm>

#include "planner/performance/kernels.h"
#include "planner/performance/links.h"

namespace strata::planner {
namespace {

// Lengths of one micro-batch on one device.
struct Lengths {
  double tokens, hidden, query, key_value, up, down, regional_tokens, tensor;
  double width;  // bytes of a value
};

// Forward, and both backward products, of M × K by K × N; the gradient of the weights is
// accumulated.
void AddProduct(const Machine& machine, Precision precision, const ProductSize& size,
                PassCost& forward, PassCost& backward) {
  const auto& [batch, m, n, k, output_bytes] = size;
  forward.products += ProductSeconds(machine, precision, size);
  backward.products +=
      ProductSeconds(machine, precision, {batch, m, k, n, output_bytes}) +
      ProductSeconds(machine, precision, {batch, k, n, m, 2 * machine.software.gradient_bytes});
}

bool Narrow(Precision precision) {
  return precision != Precision::kHalf && precision != Precision::kFp32;
}

Lengths LengthsOf(const TrainingShape& shape, const LayerKey& key) {
  const double tensor = static_cast<double>(key.tensor);
  Lengths lengths;
  lengths.tensor = tensor;
  lengths.width = ValueBytes(key.precision);
  lengths.tokens = static_cast<double>(key.micro_batch) *
                   static_cast<double>(shape.sequence_length) / static_cast<double>(key.context);
  lengths.regional_tokens = key.sequence_parallel ? lengths.tokens / tensor : lengths.tokens;
  lengths.hidden = static_cast<double>(shape.hidden);
  lengths.query = static_cast<double>(shape.heads * shape.head_dim) / tensor;
  // Fewer key-value heads than ranks are copied to each.
  lengths.key_value = std::max(static_cast<double>(shape.kv_heads) / tensor, 1.0) *
                      static_cast<double>(shape.head_dim);
  lengths.down = static_cast<double>(shape.experts > 0 ? shape.expert_ffn : shape.ffn) /
                 (shape.experts > 0 ? 1 : tensor);
  lengths.up = lengths.down * (shape.gated ? 2 : 1);
  return lengths;
}

// Rows that a device's expert products have, balanced: every token visits experts_per_token of
// them, and tensor ranks hold different tokens.
double RoutedTokens(const TrainingShape& shape, const Lengths& lengths) {
  return lengths.tokens / lengths.tensor * static_cast<double>(shape.experts_per_token);
}

void AddProducts(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
                 const Lengths& x, PassCost& forward, PassCost& backward) {
  const Precision precision = key.precision;
  AddProduct(machine, precision, {1, x.tokens, x.query + 2 * x.key_value, x.hidden, x.width},
             forward, backward);
  AddProduct(machine, precision, {1, x.tokens, x.hidden, x.query, x.width}, forward, backward);
  double batch = 1, rows = x.tokens;
  if (shape.experts > 0) {
    batch = std::max(1.0, static_cast<double>(shape.experts) / static_cast<double>(key.expert));
    rows = RoutedTokens(shape, x) / batch;
  }
  AddProduct(machine, precision, {batch, rows, x.up, x.hidden, x.width}, forward, backward);
  AddProduct(machine, precision, {batch, rows, x.hidden, x.down, x.width}, forward, backward);
}

// Bytes that kernels bound by memory move in a forward. Per element: two norms read and write (4
// values), two residual additions with their dropout or bias read twice and write (6): these stand
// outside the tensor-parallel region. Inside: rotary positions and the layout of heads (4 of
// queries, keys, values), the activation (read and write).
double ForwardBytes(const TrainingShape& shape, const Lengths& x) {
  const double rows = shape.experts > 0 ? RoutedTokens(shape, x) : x.tokens;
  const double region = x.regional_tokens * x.hidden * 10 * x.width;
  const double inside = x.tokens * (x.query + 2 * x.key_value) * 4 * x.width;
  const double activation = rows * (x.up + x.down) * x.width;
  // Experts: tokens are permuted there and back.
  const double routing = shape.experts > 0 ? rows * x.hidden * 4 * x.width : 0;
  return region + inside + activation + routing;
}

// Casts to narrow types: each operand is read in 16 bits and written as it is and transposed. The
// weights are cast once a step, which the optimizer pays.
double CastBytes(const TrainingShape& shape, const LayerKey& key, const Lengths& x, bool backward) {
  if (!Narrow(key.precision)) return 0;
  // Blocks with scales along both directions are quantised twice.
  const double bytes = key.precision == Precision::kFp8 ? 4 : 5;
  const double rows = shape.experts > 0 ? RoutedTokens(shape, x) : x.tokens;
  const double attention = backward ? x.query + 2 * x.key_value + x.hidden : x.hidden + x.query;
  const double block = backward ? x.up + x.hidden : x.hidden + x.down;
  return bytes * (x.tokens * attention + rows * block);
}

void AddMemory(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
               const Lengths& x, PassCost& forward, PassCost& backward) {
  constexpr double kBackwardBytes = 1.6;  // gradients in, gradients out, saved inputs again
  constexpr double kForwardKernels = 8, kBackwardKernels = 10, kCasts = 4;
  const bool narrow = Narrow(key.precision);
  const double bytes = ForwardBytes(shape, x);
  forward.memory += MemorySeconds(machine, bytes + CastBytes(shape, key, x, false),
                                  kForwardKernels + (narrow ? kCasts : 0));
  backward.memory += MemorySeconds(machine, kBackwardBytes * bytes + CastBytes(shape, key, x, true),
                                   kBackwardKernels + (narrow ? kCasts : 0));
}

// Megatron-LM's tensor parallelism (arXiv:1909.08053, section 3): two all-reduces forward and two
// backward; with sequence parallelism (arXiv:2205.05198, section 4.2.2) an all-gather and a
// reduce-scatter each, and the backward gathers the two inputs once more beside its products.
void AddTensor(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
               const Lengths& x, PassCost& forward, PassCost& backward) {
  const GroupShape group = GroupOf(machine, &RankMapLinks::tensor, key.tensor, 1);
  const double bytes = x.tokens * x.hidden * x.width;
  const bool narrow = machine.software.narrow_gathers && Narrow(key.precision);
  const double gathered = narrow ? bytes / 2 : bytes;
  const double both = key.sequence_parallel
                          ? CollectiveSeconds(machine, Collective::kAllGather, group, gathered) +
                                CollectiveSeconds(machine, Collective::kReduceScatter, group, bytes)
                          : CollectiveSeconds(machine, Collective::kAllReduce, group, bytes);
  const double exposed = machine.software.tensor_exposed;
  forward.tensor += 2 * both * exposed;
  backward.tensor += 2 * both * exposed;
  if (shape.experts > 0 && key.expert > 1) {
    const GroupShape experts = GroupOf(machine, &RankMapLinks::tensor, key.expert, 1);
    const double sent = RoutedTokens(shape, x) * x.hidden * x.width;
    const double exchange = CollectiveSeconds(machine, Collective::kAllToAll, experts, sent);
    forward.tensor += 2 * exchange;
    backward.tensor += 2 * exchange;
  }
}

// Keys and values of the other ranks, gathered in the forward, again in the backward, where their
// gradients are scattered too. A ring (arXiv:2310.01889) hides what attention outlasts; the first
// step of each pass is not hidden.
void AddContext(const Machine& machine, const LayerKey& key, const Lengths& x, PassCost& forward,
                PassCost& backward) {
  if (key.context <= 1) return;
  const GroupShape group = GroupOf(machine, &RankMapLinks::context, key.context, key.tensor);
  const double own = 2 * x.tokens * x.key_value * x.width;
  const double hop = MessageSeconds(machine, group, own);
  const double hops = static_cast<double>(key.context - 1);
  forward.context += hop + std::max(0.0, (hops - 1) * hop - forward.attention);
  backward.context += 2 * hop + std::max(0.0, 2 * (hops - 1) * hop - backward.attention);
}

// The host launches kernels one by one; a pass takes at least as long as that.
void AddLaunch(const Machine& machine, double kernels, PassCost& pass) {
  if (machine.software.graphs) return;
  pass.launch += std::max(0.0, kernels * machine.software.launch_seconds - pass.total());
}

void AddHead(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
             const Lengths& x, LayerCost& cost) {
  const double vocabulary = static_cast<double>(shape.vocab) / x.tensor;
  const Precision precision =
      key.precision == Precision::kFp32 ? Precision::kFp32 : Precision::kHalf;
  AddProduct(machine, precision, {1, x.tokens, vocabulary, x.hidden, x.width}, cost.head_forward,
             cost.head_backward);
  constexpr double kForwardShare = 14.0 / 22;  // the rest makes the gradient
  const double traffic = x.tokens * vocabulary * machine.software.loss_traffic;
  cost.head_forward.memory += LossSeconds(machine, kForwardShare * traffic, 4);
  cost.head_backward.memory += LossSeconds(machine, (1 - kForwardShare) * traffic, 2);
  const GroupShape group = GroupOf(machine, &RankMapLinks::tensor, key.tensor, 1);
  const double bytes = x.tokens * x.hidden * x.width;
  cost.head_backward.tensor += CollectiveSeconds(machine, Collective::kAllReduce, group, bytes);
}

}  // namespace

LayerKey KeyOf(const LayoutChoice& layout) {
  return {layout.tensor,      layout.context,           layout.expert,
          layout.micro_batch, layout.sequence_parallel, layout.precision,
          layout.recompute};
}

PassCost& PassCost::operator+=(const PassCost& other) {
  products += other.products;
  attention += other.attention;
  memory += other.memory;
  launch += other.launch;
  tensor += other.tensor;
  context += other.context;
  return *this;
}

PassCost operator*(double factor, const PassCost& cost) {
  return {factor * cost.products, factor * cost.attention, factor * cost.memory,
          factor * cost.launch,   factor * cost.tensor,    factor * cost.context};
}

LayerCost CostOfLayer(const Machine& machine, const TrainingShape& shape, const LayerKey& key) {
  constexpr double kForwardLaunches = 22, kBackwardLaunches = 36;
  const Lengths x = LengthsOf(shape, key);
  LayerCost cost;
  AddProducts(machine, shape, key, x, cost.forward, cost.backward);
  const AttentionTime attention = AttentionSeconds(
      machine, static_cast<double>(key.micro_batch), x.query / static_cast<double>(shape.head_dim),
      static_cast<double>(shape.head_dim),
      static_cast<double>(shape.sequence_length) / static_cast<double>(key.context),
      static_cast<double>(shape.sequence_length), key.precision);
  cost.forward.attention = attention.forward;
  cost.backward.attention = attention.backward;
  AddMemory(machine, shape, key, x, cost.forward, cost.backward);
  AddTensor(machine, shape, key, x, cost.forward, cost.backward);
  AddContext(machine, key, x, cost.forward, cost.backward);
  AddLaunch(machine, kForwardLaunches, cost.forward);
  AddLaunch(machine, kBackwardLaunches, cost.backward);
  if (key.recompute == Recompute::kFull) cost.backward += cost.forward;
  if (key.recompute == Recompute::kSelective) cost.backward.attention += attention.forward;
  if (key.recompute == Recompute::kOperators) {
    cost.backward.products += cost.forward.products / 2;
    cost.backward.memory += cost.forward.memory;
  }
  AddHead(machine, shape, key, x, cost);
  return cost;
}

}  // namespace strata::planner
