#include "planner/search/search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "common/divisors.h"
#include "planner/search/why_none.h"

namespace strata::planner {
namespace {

// What a pinned value leaves of the choices.
template <typename T>
std::vector<T> Chosen(const std::optional<T>& pin, std::vector<T> choices) {
  if (!pin.has_value()) return choices;
  return {*pin};
}

// Saving every other product is said by lists of values to save, which some programs do not have.
std::vector<Recompute> RecomputesOf(const Software& software) {
  if (software.lists_saved) {
    return {Recompute::kNone, Recompute::kSelective, Recompute::kOperators, Recompute::kFull};
  }
  return {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
}

auto OrderOf(const RankedPlan& plan) {
  const LayoutChoice& l = plan.layout;
  return std::make_tuple(plan.step.seconds, plan.step.memory_bytes, l.tensor, l.pipeline, l.context,
                         l.chunks, l.micro_batch, l.sharding, l.replicas, l.recompute, l.offload,
                         l.unified, l.expert);
}

class Searcher {
 public:
  explicit Searcher(const SearchRequest& request) : request_(request), shape_(request.shape) {}

  absl::StatusOr<SearchResult> Run() {
    VisitAll();
    if (result_.legal == 0) return absl::InvalidArgumentError(WhyNoLayout(request_));
    std::sort(result_.plans.begin(), result_.plans.end(), Faster);
    if (!result_.plans.empty()) {
      result_.smallest.reset();
      if (result_.fastest_too_large.has_value() &&
          !Faster(*result_.fastest_too_large, result_.plans.front())) {
        result_.fastest_too_large.reset();
      }
    }
    return std::move(result_);
  }

  void Visit(const std::function<void(const LayoutChoice&)>& visit) {
    visit_ = &visit;
    VisitAll();
  }

 private:
  static bool Faster(const RankedPlan& a, const RankedPlan& b) { return OrderOf(a) < OrderOf(b); }

  void VisitAll() {
    for (const int64_t tensor : Chosen(request_.pins.tensor, common::DivisorsOf(shape_.heads))) {
      if (!IsTensorLegal(tensor)) continue;
      for (const int64_t context : Chosen(request_.pins.context, ContextDegrees())) {
        if (!IsContextLegal(tensor, context)) continue;
        for (const int64_t expert : Chosen(request_.pins.expert, ExpertDegrees())) {
          if (IsExpertLegal(expert)) VisitPipelines(tensor, context, expert);
        }
      }
    }
  }

  // Heads and widths are cut evenly; beyond an NVLink domain a collective
  // per layer is not worth a thought.
  bool IsTensorLegal(int64_t tensor) const {
    const int64_t kv = shape_.kv_heads;
    return tensor <= std::max<int64_t>(request_.machine.network.domain_devices, 1) &&
           request_.devices % tensor == 0 && shape_.heads % tensor == 0 &&
           (kv % tensor == 0 || tensor % kv == 0) && shape_.hidden % tensor == 0 &&
           (shape_.experts > 0 || shape_.ffn % tensor == 0);
  }
  // Each rank has two pieces of the sequence, one from either end (causal balance).
  bool IsContextLegal(int64_t tensor, int64_t context) const {
    if (context == 1) return shape_.sequence_length % tensor == 0;
    return request_.devices / tensor % context == 0 &&
           shape_.sequence_length % (2 * context) == 0 &&
           shape_.sequence_length / context % tensor == 0;
  }
  std::vector<int64_t> ContextDegrees() const {
    std::vector<int64_t> degrees;
    for (int64_t c = 1; c <= request_.devices && shape_.sequence_length / c >= 1024; c *= 2) {
      degrees.push_back(c);
    }
    if (degrees.empty()) degrees = {1};
    return degrees;
  }
  std::vector<int64_t> ExpertDegrees() const {
    if (shape_.experts == 0) return {1};
    return common::DivisorsOf(shape_.experts);
  }
  bool IsExpertLegal(int64_t expert) const {
    return expert == 1 || (shape_.experts > 0 && shape_.experts % expert == 0);
  }
  // Whether virtual stages have equal parts: of the layers, or of the layers with the embedding and
  // the head counted as one each.
  bool CutsEvenly(int64_t parts) const {
    return parts == 1 || shape_.layers % parts == 0 || (shape_.layers + 2) % parts == 0;
  }

  void VisitPipelines(int64_t tensor, int64_t context, int64_t expert) {
    const int64_t rest = request_.devices / (tensor * context);
    for (const int64_t pipeline : Chosen(request_.pins.pipeline, common::DivisorsOf(rest))) {
      if (rest % pipeline != 0 || pipeline > shape_.layers + 2 || !CutsEvenly(pipeline)) continue;
      const int64_t data = rest / pipeline;
      if (request_.pins.data.has_value() && *request_.pins.data != data) continue;
      if (request_.global_batch % data != 0) continue;
      if (data * context * tensor % expert != 0) continue;
      LayoutChoice layout;
      layout.tensor = tensor;
      layout.context = context;
      layout.expert = expert;
      layout.pipeline = pipeline;
      layout.data = data;
      layout.global_batch = request_.global_batch;
      layout.precision = request_.precision;
      if (layout.precision == Precision::kFp32) layout.update_bytes -= 2;  // no 16-bit copy
      layout.sequence_parallel = tensor > 1;
      layout.context_shares = request_.machine.software.context_shares;
      VisitMicroBatches(layout);
    }
  }

  void VisitMicroBatches(LayoutChoice layout) {
    const int64_t share = request_.global_batch / layout.data;
    for (const int64_t micro : Chosen(request_.pins.micro_batch, common::DivisorsOf(share))) {
      if (share % micro != 0 || (micro > kMostMicroBatch && !request_.pins.micro_batch)) continue;
      layout.micro_batch = micro;
      for (const Recompute recompute :
           Chosen(request_.pins.recompute, RecomputesOf(request_.machine.software))) {
        layout.recompute = recompute;
        const LayerCost& cost = CostOf(layout);
        // All that is left to choose only adds to this.
        const double least = LeastSeconds(layout, cost);
        for (const int64_t chunks : Chosen(request_.pins.chunks, ChunksOf(layout))) {
          layout.chunks = chunks;
          if (IsChunked(layout)) VisitStorage(layout, cost, least);
        }
        layout.chunks = 1;
      }
    }
  }

  std::vector<int64_t> ChunksOf(const LayoutChoice& layout) const {
    std::vector<int64_t> chunks = {1};
    if (layout.pipeline == 1 || layout.micro_batches() % layout.pipeline != 0) return chunks;
    for (int64_t c = 2; c * layout.pipeline <= shape_.layers + 2; ++c) {
      if (CutsEvenly(c * layout.pipeline)) chunks.push_back(c);
    }
    return chunks;
  }
  bool IsChunked(const LayoutChoice& layout) const {
    return layout.chunks == 1 ||
           (layout.pipeline > 1 && layout.micro_batches() % layout.pipeline == 0 &&
            layout.chunks <= (shape_.layers + 2) / layout.pipeline &&
            CutsEvenly(layout.pipeline * layout.chunks));
  }

  void VisitStorage(LayoutChoice layout, const LayerCost& cost, double least) {
    const std::vector<Shared> shared = SharedBy(layout);
    if (visit_ != nullptr) {
      for (const Shared& each : shared) {
        layout.sharding = each.sharding;
        layout.replicas = each.replicas;
        (*visit_)(layout);
      }
      return;
    }
    result_.legal += static_cast<int64_t>(shared.size() * homes_.size());
    if (least > Worst() && result_.plans.size() == static_cast<size_t>(request_.most)) return;
    for (const Shared& each : shared) {
      layout.sharding = each.sharding;
      layout.replicas = each.replicas;
      std::vector<RankedPlan> kept;  // of this layout
      for (const Home& home : homes_) {
        layout.offload = home.offload;
        layout.unified = home.unified;
        const RankedPlan plan = {layout, PredictStep(request_.machine, shape_, layout, cost)};
        if (std::any_of(kept.begin(), kept.end(),
                        [&](const RankedPlan& less) { return IsInVain(plan, less); })) {
          continue;
        }
        if (ShareOf(plan) <= 1) kept.push_back(plan);
        Consider(plan);
      }
    }
  }

  // Whether a plan has more classes of bytes on the host than another of the same layout that fits,
  // and is no faster.
  static bool IsInVain(const RankedPlan& plan, const RankedPlan& less) {
    const auto classes = [](const RankedPlan& p) {
      return static_cast<unsigned>(p.layout.offload);
    };
    const bool same_states = (classes(less) & static_cast<unsigned>(Offload::kOptimizer)) == 0 ||
                             plan.layout.unified == less.layout.unified;
    return same_states && (classes(plan) | classes(less)) == classes(plan) &&
           classes(plan) != classes(less) && plan.step.seconds >= less.step.seconds;
  }

  // Where states and activations live.
  struct Home {
    Offload offload = Offload::kNone;
    bool unified = false;
  };
  static std::vector<Home> HomesOf(const SearchRequest& request) {
    const Network& network = request.machine.network;
    if (request.pins.offload.has_value()) return {{*request.pins.offload, request.pins.unified}};
    std::vector<Home> homes = {{}};
    if (!request.tiers || network.host_rate <= 0 || network.host_is_device) return homes;
    homes.push_back({Offload::kOptimizer});
    homes.push_back({Offload::kActivations});
    homes.push_back({Offload::kAll});
    if (!network.coherent) return homes;
    homes.push_back({Offload::kOptimizer, true});
    homes.push_back({Offload::kAll, true});
    return homes;
  }

  struct Shared {
    Sharding sharding;
    int64_t replicas;
  };
  std::vector<Shared> SharedBy(const LayoutChoice& layout) const {
    const Pins& pins = request_.pins;
    // One rank has nobody to share with, whatever level is pinned.
    if (layout.sharing() == 1) {
      if (pins.shard_group.has_value()) return {};
      return {{Sharding::kReplicated, 1}};
    }
    std::vector<Shared> shared;
    for (const Sharding sharding : Chosen(pins.sharding, {Sharding::kReplicated, Sharding::kZero1,
                                                          Sharding::kZero2, Sharding::kZero3})) {
      if (sharding == Sharding::kReplicated) {
        if (!pins.shard_group.has_value()) shared.push_back({sharding, 1});
        continue;
      }
      for (const int64_t replicas : ReplicasOf(layout)) shared.push_back({sharding, replicas});
    }
    return shared;
  }

  // Groups of data ranks that share: all of them together, or some domains each, or as many as one
  // domain has. Smaller groups hold more and are no faster.
  std::vector<int64_t> ReplicasOf(const LayoutChoice& layout) const {
    std::vector<int64_t> found;
    const int64_t domain = request_.machine.network.domain_devices;
    for (const int64_t replicas : common::DivisorsOf(layout.data)) {
      const int64_t group = layout.data / replicas;
      if (group == 1 && replicas > 1) break;  // it would share nothing
      if (request_.pins.shard_group.value_or(group) == group) found.push_back(replicas);
      if (!request_.pins.shard_group && layout.tensor * layout.context * group <= domain) break;
    }
    return found;
  }

  // Of the memory that is scarcest for it, the device's or the host's: above 1 it does not fit.
  double ShareOf(const RankedPlan& plan) const {
    const double host = request_.machine.network.host_memory_bytes;
    return std::max(plan.step.memory_bytes / request_.memory_bytes,
                    host > 0 ? plan.step.host_bytes / host : 0);
  }

  void Consider(RankedPlan plan) {
    std::vector<RankedPlan>& plans = result_.plans;
    if (ShareOf(plan) > 1) {
      const bool of_device = plan.step.memory_bytes > request_.memory_bytes;
      if (of_device &&
          (!result_.fastest_too_large.has_value() || Faster(plan, *result_.fastest_too_large))) {
        result_.fastest_too_large = plan;
      }
      if (plans.empty() &&
          (!result_.smallest.has_value() || ShareOf(plan) < ShareOf(*result_.smallest))) {
        result_.smallest = plan;
      }
      return;
    }
    // A heap whose front is the slowest of those that are kept.
    if (plans.size() == static_cast<size_t>(request_.most)) {
      if (!Faster(plan, plans.front())) return;
      std::pop_heap(plans.begin(), plans.end(), Faster);
      plans.pop_back();
    }
    plans.push_back(plan);
    std::push_heap(plans.begin(), plans.end(), Faster);
  }

  double Worst() const { return result_.plans.empty() ? 0 : result_.plans.front().step.seconds; }

  double LeastSeconds(const LayoutChoice& layout, const LayerCost& cost) const {
    const double middle =
        LayersOf(shape_, layout).middle * (cost.forward.total() + cost.backward.total());
    return middle * static_cast<double>(layout.micro_batches());
  }

  const LayerCost& CostOf(const LayoutChoice& layout) {
    const LayerKey key = KeyOf(layout);
    auto found = costs_.find(key);
    if (found == costs_.end()) {
      found = costs_.emplace(key, CostOfLayer(request_.machine, shape_, key)).first;
    }
    return found->second;
  }

  static constexpr int64_t kMostMicroBatch = 64;

  const SearchRequest& request_;
  const TrainingShape& shape_;
  const std::vector<Home> homes_ = HomesOf(request_);
  const std::function<void(const LayoutChoice&)>* visit_ = nullptr;
  std::map<LayerKey, LayerCost> costs_;
  SearchResult result_;
};

}  // namespace

absl::StatusOr<SearchResult> Search(const SearchRequest& request) {
  return Searcher(request).Run();
}

void VisitLegal(const SearchRequest& request,
                const std::function<void(const LayoutChoice&)>& visit) {
  Searcher(request).Visit(visit);
}

double FlopsPerToken(const TrainingShape& shape, bool causal) {
  const double hidden = static_cast<double>(shape.hidden);
  const double query = static_cast<double>(shape.heads * shape.head_dim);
  const double keys = static_cast<double>(shape.kv_heads * shape.head_dim);
  const double ffn = shape.experts > 0
                         ? static_cast<double>(shape.expert_ffn * shape.experts_per_token)
                         : static_cast<double>(shape.ffn);
  const double matrices = shape.gated ? 3 : 2;
  const double products =
      hidden * (2 * query + 2 * keys) + matrices * hidden * ffn + hidden * shape.experts;
  const double attention =
      2 * static_cast<double>(shape.sequence_length) * query * (causal ? 0.5 : 1);
  const double forward = 2 * (static_cast<double>(shape.layers) * (products + attention) +
                              hidden * static_cast<double>(shape.vocab));
  return 3 * forward;
}

}  // namespace strata::planner
