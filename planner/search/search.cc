#include "planner/search/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "common/divisors.h"
#include "planner/performance/memory_estimate.h"
#include "planner/search/offload_choices.h"
#include "planner/search/why_none.h"

namespace strata::planner {
namespace {

// What a pinned value leaves of the choices.
template <typename T>
std::vector<T> Chosen(const std::optional<T>& pin, std::vector<T> choices) {
  if (!pin.has_value()) return choices;
  return {*pin};
}

struct Recomputed {
  Recompute recompute = Recompute::kNone;
  SavedValues saved = {};
};

std::vector<Recomputed> RecomputesOf(const SearchRequest& request, const LayoutChoice& layout) {
  if (request.pins.recompute.has_value()) return {{*request.pins.recompute, request.pins.saved}};
  if (!request.machine.software.saves_by_value) {
    return {
        {Recompute::kNone}, {Recompute::kSelective}, {Recompute::kOperators}, {Recompute::kFull}};
  }
  std::vector<Recomputed> recomputes;
  for (const SavedValues saved : SavedChoices(request.machine, request.shape, layout)) {
    const Recompute mode = ModeOf(saved);
    recomputes.push_back({mode, mode == Recompute::kListed ? saved : SavedValues{}});
  }
  return recomputes;
}

auto OrderOf(const RankedPlan& plan) {
  const LayoutChoice& l = plan.layout;
  return std::make_tuple(plan.step.seconds, plan.step.memory_bytes, l.tensor, l.pipeline, l.context,
                         l.chunks, l.micro_batch, l.sharding, l.replicas, l.recompute, l.saved,
                         l.listed_layers, l.offload, l.unified, l.expert);
}

class Searcher {
 public:
  explicit Searcher(const SearchRequest& request) : request_(request), shape_(request.shape) {}

  absl::StatusOr<SearchResult> Run() {
    VisitAll();
    if (result_.legal > 0 && result_.plans.empty() && request_.tiers && !request_.pins.offload) {
      offloads_ = FartherOffloadChoices(request_.machine.network);
      if (!offloads_.empty()) VisitAll();
    }
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
      layout.chunks = 1;
      // Whoever asks only what is legal needs no costs.
      const std::vector<Variant> variants =
          visit_ == nullptr ? VariantsOf(layout) : std::vector<Variant>{};
      for (const int64_t chunks : Chosen(request_.pins.chunks, ChunksOf(layout))) {
        layout.chunks = chunks;
        if (IsChunked(layout)) VisitStorage(layout, variants);
      }
    }
  }

  // One of what blocks may make again, and what that costs.
  struct Variant {
    Recomputed recomputed;
    const LayerCost* cost = nullptr;
    const LayerCost* others = nullptr;  // of layers that a list is not for; null: it is for all
    double least = 0;                   // seconds: all that is left to choose only adds to this
  };
  std::vector<Variant> VariantsOf(LayoutChoice layout) {
    std::vector<Variant> variants;
    const bool mixes = request_.machine.software.saves_by_value && layout.pipeline == 1 &&
                       !request_.pins.recompute.has_value();
    layout.recompute = Recompute::kNone;
    const LayerCost* const others = mixes ? &CostOf(layout) : nullptr;
    auto found = recomputes_.find(KeyOf(layout));
    if (found == recomputes_.end()) {
      found = recomputes_.emplace(KeyOf(layout), RecomputesOf(request_, layout)).first;
    }
    for (const Recomputed& recomputed : found->second) {
      layout.recompute = recomputed.recompute;
      layout.saved = recomputed.saved;
      Variant variant{recomputed, &CostOf(layout)};
      variant.least = LeastSeconds(layout, *variant.cost);
      if (mixes && recomputed.recompute != Recompute::kNone) {
        variant.others = others;
        variant.least = std::min(variant.least, LeastSeconds(layout, *others));
      }
      variants.push_back(variant);
    }
    return variants;
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

  bool IsTooSlow(const Variant& variant) const {
    return variant.least > Worst() && result_.plans.size() == static_cast<size_t>(request_.most);
  }

  void VisitStorage(LayoutChoice layout, const std::vector<Variant>& variants) {
    const std::vector<Shared> shared = SharedBy(layout);
    if (visit_ != nullptr) {
      for (const Shared& each : shared) {
        layout.sharding = each.sharding;
        layout.replicas = each.replicas;
        (*visit_)(layout);
      }
      return;
    }
    result_.legal += static_cast<int64_t>(shared.size() * offloads_.size() * variants.size());
    if (std::all_of(variants.begin(), variants.end(),
                    [&](const Variant& variant) { return IsTooSlow(variant); })) {
      return;
    }
    for (const Shared& each : shared) {
      layout.sharding = each.sharding;
      layout.replicas = each.replicas;
      std::vector<RankedPlan> kept;  // of this layout
      for (const OffloadChoice& choice : offloads_) {
        layout.offload = choice.offload;
        layout.unified = choice.unified;
        VisitRecomputes(layout, variants, kept);
      }
    }
  }

  void VisitRecomputes(LayoutChoice layout, const std::vector<Variant>& variants,
                       std::vector<RankedPlan>& kept) {
    if (request_.machine.software.saves_by_value) return VisitSaved(layout, variants, kept);
    for (const Variant& variant : variants) {
      if (IsTooSlow(variant)) continue;
      layout.recompute = variant.recomputed.recompute;
      const RankedPlan plan{layout, PredictStep(request_.machine, shape_, layout, *variant.cost)};
      if (Fits(plan)) Offer(plan, kept);
    }
  }

  // Keeps the fastest that fits. Variants come by the time that their backwards take. A longer one
  // makes the step longer, unless it hides more of what moves to the host, or less moves: once what
  // is waited for there is what it was with the variant before, that is over. Some layers of a
  // longer one may do better than all of a shorter one.
  void VisitSaved(LayoutChoice layout, const std::vector<Variant>& variants,
                  std::vector<RankedPlan>& kept) {
    const StageLayers layers = LayersOf(shape_, layout);
    const double passes =
        std::min(layers.middle, layers.last) * static_cast<double>(layout.micro_batches());
    std::optional<RankedPlan> best;
    const auto take = [&](const RankedPlan& plan) {
      if (Fits(plan) && (!best.has_value() || Faster(plan, *best))) best = plan;
    };
    const size_t first = FirstThatFits(layout, variants);
    double moving = 0;  // seconds of the variant before
    double least = 0;   // of a step with no backward longer, and all that may hide hidden
    for (size_t v = 0; v < variants.size(); ++v) {
      const Variant& variant = variants[v];
      if (IsTooSlow(variant)) continue;
      const bool mixes = variant.others != nullptr && !ActivationsAway(layout);
      const double longer =
          passes * (variant.cost->backward.total() - variants[0].cost->backward.total());
      // Of those that do not fit the fastest is told, and the smallest.
      if (!mixes && v > 0 && v < first && v + 1 < variants.size()) continue;
      if (!mixes && best.has_value() && least + longer > best->step.seconds) break;
      layout.recompute = variant.recomputed.recompute;
      layout.saved = variant.recomputed.saved;
      const RankedPlan whole{layout, PredictStep(request_.machine, shape_, layout, *variant.cost)};
      take(whole);
      if (const auto mixed = mixes ? MixedWith(whole, variant) : std::nullopt) take(*mixed);
      const StepTerms& terms = whole.step.terms;
      least = std::max(least,
                       whole.step.seconds - terms.offload - terms.data - terms.straggler - longer);
      const double before = std::exchange(moving, terms.offload);
      if (!mixes && moving == before && ShareOf(whole) <= 1) break;
    }
    if (best.has_value()) Offer(*best, kept);
  }

  // Longer backwards need less memory, of the device and of the host.
  size_t FirstThatFits(LayoutChoice layout, const std::vector<Variant>& variants) const {
    const StageParameters parameters = ParametersOf(shape_, layout);
    const auto is_too_large = [&](const Variant& variant) {
      layout.recompute = variant.recomputed.recompute;
      layout.saved = variant.recomputed.saved;
      return ShareOf(layout, MemoryEstimate(request_.machine, shape_, layout, parameters),
                     HostEstimate(request_.machine, shape_, layout, parameters)) > 1;
    };
    return std::partition_point(variants.begin(), variants.end(), is_too_large) - variants.begin();
  }

  static bool ActivationsAway(const LayoutChoice& layout) {
    return Has(layout.offload, Offload::kActivations);
  }

  // What fits best where some layers save as with recompute none: what saves less than that in as
  // few layers as need it, what saves more in as many as can. Bytes are linear in their number. Not
  // in a pipeline, whose first stage has most micro-batches of its layers: there the slowest stage
  // decides, and no range of layers is the same part of each.
  std::optional<RankedPlan> MixedWith(const RankedPlan& whole, const Variant& variant) const {
    LayoutChoice layout = whole.layout;
    layout.recompute = Recompute::kNone;
    const Machine& machine = request_.machine;
    const double more = ActivationBytes(machine.software, shape_, layout) -
                        ActivationBytes(machine.software, shape_, whole.layout);
    const double limit = request_.memory_bytes - MoreOf(layout).device;
    const bool fits = whole.step.memory_bytes <= limit;
    if (fits != (more > 0)) return std::nullopt;
    layout.recompute = Recompute::kListed;
    layout.saved = SavedBy(whole.layout.recompute, whole.layout.saved);
    layout.listed_layers = shape_.layers - 1;
    if (layout.listed_layers == 0) return std::nullopt;
    // Layers beside that one which save as usual: at most so many where that is more, else at
    // least. A byte is for rounding.
    const double room =
        limit - 1 - MemoryEstimate(machine, shape_, layout, ParametersOf(shape_, layout));
    const double others = more > 0 ? std::floor(room / more) : std::ceil(room / more);
    if (more > 0 && others < 0) return std::nullopt;
    layout.listed_layers -=
        static_cast<int64_t>(std::clamp(others, 0.0, static_cast<double>(layout.listed_layers)));
    if (layout.listed_layers == 0) return std::nullopt;
    const LayerCost cost = MeanCost(shape_, layout, *variant.cost, *variant.others);
    return RankedPlan{layout, PredictStep(request_.machine, shape_, layout, cost)};
  }

  // Whether a plan has more classes of bytes on the host than another of the same layout that fits,
  // and is no faster. Modes of recompute are layouts of their own, what is saved by value is not.
  bool IsInVain(const RankedPlan& plan, const RankedPlan& less) const {
    const bool same_states = !Has(less.layout.offload, Offload::kOptimizer) ||
                             plan.layout.unified == less.layout.unified;
    const bool same_layout =
        request_.machine.software.saves_by_value || plan.layout.recompute == less.layout.recompute;
    return same_states && same_layout && Has(plan.layout.offload, less.layout.offload) &&
           plan.layout.offload != less.layout.offload && plan.step.seconds >= less.step.seconds;
  }

  // `kept`: those of the same layout so far.
  void Offer(const RankedPlan& plan, std::vector<RankedPlan>& kept) {
    if (std::any_of(kept.begin(), kept.end(),
                    [&](const RankedPlan& less) { return IsInVain(plan, less); })) {
      return;
    }
    kept.push_back(plan);
    Keep(plan);
  }

  static std::vector<OffloadChoice> OffloadsOf(const SearchRequest& request) {
    if (request.pins.offload.has_value()) return {{*request.pins.offload, request.pins.unified}};
    if (!request.tiers) return {{}};
    return OffloadChoices(request.machine.network);
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
  double ShareOf(const LayoutChoice& layout, double device_bytes, double host_bytes) const {
    const double host = request_.machine.network.host_memory_bytes;
    const MoreBytes more = MoreOf(layout);
    return std::max((device_bytes + more.device) / request_.memory_bytes,
                    host > 0 ? (host_bytes + more.host) / host : 0);
  }
  double ShareOf(const RankedPlan& plan) const {
    return ShareOf(plan.layout, plan.step.memory_bytes, plan.step.host_bytes);
  }
  MoreBytes MoreOf(const LayoutChoice& layout) const {
    return request_.more_bytes == nullptr ? MoreBytes{} : request_.more_bytes(layout);
  }

  // What does not is noted.
  bool Fits(const RankedPlan& plan) {
    if (ShareOf(plan) <= 1) return true;
    const bool of_device =
        plan.step.memory_bytes + MoreOf(plan.layout).device > request_.memory_bytes;
    if (of_device &&
        (!result_.fastest_too_large.has_value() || Faster(plan, *result_.fastest_too_large))) {
      result_.fastest_too_large = plan;
    }
    if (result_.plans.empty() &&
        (!result_.smallest.has_value() || ShareOf(plan) < ShareOf(*result_.smallest))) {
      result_.smallest = plan;
    }
    return false;
  }

  // A heap whose front is the slowest of those that are kept.
  void Keep(const RankedPlan& plan) {
    std::vector<RankedPlan>& plans = result_.plans;
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
  std::vector<OffloadChoice> offloads_ = OffloadsOf(request_);
  const std::function<void(const LayoutChoice&)>* visit_ = nullptr;
  std::map<LayerKey, LayerCost> costs_;
  std::map<LayerKey, std::vector<Recomputed>> recomputes_;  // by the key with recompute none
  SearchResult result_;
};

}  // namespace

std::vector<SavedValues> SavedChoices(const Machine& machine, const TrainingShape& shape,
                                      const LayoutChoice& layout) {
  const ByValue<PassCost> replays = ReplayCosts(machine, shape, KeyOf(layout));
  ByValue<double> seconds;
  std::transform(replays.begin(), replays.end(), seconds.begin(),
                 [](const PassCost& replay) { return replay.total(); });
  return LadderOf(ValueBytes(shape, layout), seconds);
}

bool Faster(const RankedPlan& a, const RankedPlan& b) { return OrderOf(a) < OrderOf(b); }

absl::StatusOr<SearchResult> Search(const SearchRequest& request) {
  return Searcher(request).Run();
}

void VisitLegal(const SearchRequest& request,
                const std::function<void(const LayoutChoice&)>& visit) {
  Searcher(request).Visit(visit);
}

}  // namespace strata::planner
