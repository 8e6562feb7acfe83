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
  lengths.width = WidthOf(key.precision);
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

// The products of a block.
struct Products {
  ProductSize qkv, attended, up, down;
};

Products ProductsOf(const TrainingShape& shape, const LayerKey& key, const Lengths& x) {
  double batch = 1, rows = x.tokens;
  if (shape.experts > 0) {
    batch = std::max(1.0, static_cast<double>(shape.experts) / static_cast<double>(key.expert));
    rows = RoutedTokens(shape, x) / batch;
  }
  return {.qkv = {1, x.tokens, x.query + 2 * x.key_value, x.hidden, x.width},
          .attended = {1, x.tokens, x.hidden, x.query, x.width},
          .up = {batch, rows, x.up, x.hidden, x.width},
          .down = {batch, rows, x.hidden, x.down, x.width}};
}

void AddProducts(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
                 const Lengths& x, PassCost& forward, PassCost& backward) {
  const Products products = ProductsOf(shape, key, x);
  for (const ProductSize& size : {products.qkv, products.attended, products.up, products.down}) {
    AddProduct(machine, key.precision, size, forward, backward);
  }
}

// Bytes that kernels bound by memory move in a forward. Per element: two norms read and write (4
// values), two residual additions with their dropout or bias read twice and write (6): these stand
// outside the tensor-parallel region. Inside: rotary positions and the layout of heads (4 of
// queries, keys, values), the activation (read and write).
struct MovedBytes {
  double norms, residuals, heads, activation;
  double routing;  // experts: tokens are permuted there and back

  double total() const { return norms + residuals + heads + activation + routing; }
};

MovedBytes MovedBytesOf(const TrainingShape& shape, const Lengths& x) {
  const double rows = shape.experts > 0 ? RoutedTokens(shape, x) : x.tokens;
  return {.norms = x.regional_tokens * x.hidden * 4 * x.width,
          .residuals = x.regional_tokens * x.hidden * 6 * x.width,
          .heads = x.tokens * (x.query + 2 * x.key_value) * 4 * x.width,
          .activation = rows * (x.up + x.down) * x.width,
          .routing = shape.experts > 0 ? rows * x.hidden * 4 * x.width : 0};
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
  const double bytes = MovedBytesOf(shape, x).total();
  forward.memory += MemorySeconds(machine, bytes + CastBytes(shape, key, x, false),
                                  kForwardKernels + (narrow ? kCasts : 0));
  backward.memory += MemorySeconds(machine, kBackwardBytes * bytes + CastBytes(shape, key, x, true),
                                   kBackwardKernels + (narrow ? kCasts : 0));
}

// Megatron-LM's tensor parallelism (arXiv:1909.08053, section 3): two all-reduces forward and two
// backward; with sequence parallelism (arXiv:2205.05198, section 4.2.2) an all-gather and a
// reduce-scatter each, and the backward gathers the two inputs once more beside its products.
struct TensorSeconds {
  double gather = 0;  // into a product whose output is cut
  double sum = 0;     // of a product whose input is cut
};

TensorSeconds TensorSecondsOf(const Machine& machine, const LayerKey& key, const Lengths& x) {
  const GroupShape group = GroupOf(machine, &RankMapLinks::tensor, key.tensor, 1);
  const double bytes = x.tokens * x.hidden * x.width;
  const bool narrow = machine.software.narrow_gathers && Narrow(key.precision);
  const double gathered = narrow ? bytes / 2 : bytes;
  if (!key.sequence_parallel) {
    return {.sum = CollectiveSeconds(machine, Collective::kAllReduce, group, bytes)};
  }
  return {.gather = CollectiveSeconds(machine, Collective::kAllGather, group, gathered),
          .sum = CollectiveSeconds(machine, Collective::kReduceScatter, group, bytes)};
}

void AddTensor(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
               const Lengths& x, PassCost& forward, PassCost& backward) {
  const TensorSeconds seconds = TensorSecondsOf(machine, key, x);
  const double both = seconds.gather + seconds.sum;
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

AttentionTime AttentionOf(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
                          const Lengths& x) {
  return AttentionSeconds(
      machine, static_cast<double>(key.micro_batch), x.query / static_cast<double>(shape.head_dim),
      static_cast<double>(shape.head_dim),
      static_cast<double>(shape.sequence_length) / static_cast<double>(key.context),
      static_cast<double>(shape.sequence_length), key.precision);
}

void AddRecompute(const Machine& machine, const TrainingShape& shape, const LayerKey& key,
                  LayerCost& cost) {
  if (key.recompute == Recompute::kOperators) {
    cost.backward.products += cost.forward.products / 2;
    cost.backward.memory += cost.forward.memory;
  } else if (machine.software.saves_by_value) {
    const SavedValues saved = SavedBy(key.recompute, key.saved);
    const ByValue<PassCost> replays = ReplayCosts(machine, shape, key);
    for (int v = 0; v < kSavedValues; ++v) {
      if (!saved.has(static_cast<SavedValue>(v))) cost.backward += replays[v];
    }
  } else if (key.recompute == Recompute::kFull) {
    cost.backward += cost.forward;
  } else if (key.recompute == Recompute::kSelective) {
    cost.backward.attention += cost.forward.attention;
  }
}

}  // namespace

LayerKey KeyOf(const LayoutChoice& layout) {
  return {layout.tensor,
          layout.context,
          layout.expert,
          layout.micro_batch,
          layout.sequence_parallel,
          layout.precision,
          layout.recompute,
          layout.recompute == Recompute::kListed ? layout.saved : SavedValues{}};
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
  const AttentionTime attention = AttentionOf(machine, shape, key, x);
  cost.forward.attention = attention.forward;
  cost.backward.attention = attention.backward;
  AddMemory(machine, shape, key, x, cost.forward, cost.backward);
  AddTensor(machine, shape, key, x, cost.forward, cost.backward);
  AddContext(machine, key, x, cost.forward, cost.backward);
  AddLaunch(machine, kForwardLaunches, cost.forward);
  AddLaunch(machine, kBackwardLaunches, cost.backward);
  AddRecompute(machine, shape, key, cost);
  AddHead(machine, shape, key, x, cost);
  return cost;
}

ByValue<PassCost> ReplayCosts(const Machine& machine, const TrainingShape& shape,
                              const LayerKey& key) {
  const Lengths x = LengthsOf(shape, key);
  const Products products = ProductsOf(shape, key, x);
  const MovedBytes moved = MovedBytesOf(shape, x);
  const TensorSeconds tensor = TensorSecondsOf(machine, key, x);
  const double exposed = machine.software.tensor_exposed;
  PassCost attention = {.attention = AttentionOf(machine, shape, key, x).forward};
  PassCost beside;  // the exchange of a backward, which the replay does not have
  AddContext(machine, key, x, attention, beside);
  return {PassCost{.memory = MemorySeconds(machine, moved.norms, 2)},
          PassCost{.products = ProductSeconds(machine, key.precision, products.qkv),
                   .memory = MemorySeconds(machine, moved.heads / 2, 1),  // rotary positions
                   .tensor = exposed * tensor.gather},
          attention,
          PassCost{.products = ProductSeconds(machine, key.precision, products.attended),
                   .memory = MemorySeconds(machine, moved.residuals / 2, 1),
                   .tensor = exposed * tensor.sum},
          PassCost{.products = ProductSeconds(machine, key.precision, products.up),
                   .memory = moved.routing > 0 ? MemorySeconds(machine, moved.routing / 2, 1) : 0,
                   .tensor = exposed * tensor.gather},
          PassCost{.memory = MemorySeconds(machine, moved.activation, 1)}};
}

LayerCost MeanCost(const TrainingShape& shape, const LayoutChoice& layout, const LayerCost& listed,
                   const LayerCost& others) {
  const double share = layout.listed_share(shape.layers);
  LayerCost mean = listed;
  mean.backward = share * listed.backward;
  mean.backward += (1 - share) * others.backward;
  return mean;
}

}  // namespace strata::planner
