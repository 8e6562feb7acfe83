#include "program/compose/sources/gradients.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/convert.h"
#include "ops/elementwise.h"

namespace strata::program {
namespace {

// Additions of what communication brings are issued this many calls later: the compute stream runs
// in order, and would wait.
constexpr int64_t kCallsBeforeCombining = 2;

}  // namespace

Gradients::Gradients(const Stage& stage, int micro_batches, std::vector<Use> uses, bool tied_stay,
                     Transfers& transfers, std::function<void(int set)> whole,
                     std::function<void(int set)> at_home)
    : stage_(stage),
      transfers_(transfers),
      whole_(std::move(whole)),
      at_home_(std::move(at_home)),
      uses_(std::move(uses)),
      tied_stay_(tied_stay),
      first_products_(stage) {
  std::map<Partial, int> small;  // bucket by what it is partial over
  const std::vector<SetPlan>& sets = stage.sets.sets;
  for (size_t s = 0; s < sets.size(); ++s) {
    if (!sets[s].trainable) {
      bucket_of_set_.push_back(-1);
    } else {
      AddBucket(sets[s], static_cast<int>(s), small);
    }
  }
  for (Bucket& bucket : buckets_) SizeBucket(bucket, micro_batches);
  FindNextUses();
}

void Gradients::FindNextUses() {
  next_use_.resize(uses_.size());
  std::map<std::pair<int, int64_t>, int> next;  // by bucket and leaf
  for (int u = static_cast<int>(uses_.size()) - 1; u >= 0; --u) {
    for (const int index : BucketsOf(uses_[u])) {
      const int64_t leaf = uses_[u].micro_batch / buckets_[index].passes;
      const auto [found, last] = next.try_emplace({index, leaf}, std::numeric_limits<int>::max());
      next_use_[u].push_back(found->second);
    }
    for (const int index : BucketsOf(uses_[u])) {
      next[{index, uses_[u].micro_batch / buckets_[index].passes}] = u;
    }
  }
}

void Gradients::AddBucket(const SetPlan& set, int position, std::map<Partial, int>& small) {
  const ParameterSet& of = stage_.SetOf(set);
  int index = static_cast<int>(buckets_.size());
  const bool shares = set.small && !set.tied() && set.gradients == Home::kDevice;
  if (shares) index = small.try_emplace(set.partial, index).first->second;
  if (index == static_cast<int>(buckets_.size())) {
    buckets_.push_back({.name = of.name,
                        .partial = set.partial,
                        .per_leaf = set.reduce == Reduce::kPerLeaf,
                        .small = set.small,
                        .tied = set.tied(),
                        .home = set.gradients,
                        .parts = set.gradient_parts > 1 ? set.gradient_parts : set.state_parts});
  } else {
    buckets_[index].name = "vectors";
  }
  Bucket& bucket = buckets_[index];
  bucket.sets.push_back(position);
  bucket.elements += of.elements;
  bucket.producers += set.producers;
  bucket_of_set_.push_back(index);
}

void Gradients::SizeBucket(Bucket& bucket, int micro_batches) const {
  bucket.tree = stage_.leaves.tree;
  // Without a tree, what is reduced once a step has one accumulator for all micro-batches.
  // That would keep all of them in f32 where sums have fewer bits: then vectors only.
  const bool one = !bucket.tree && (bucket.small || (!bucket.per_leaf && !Converts()));
  bucket.leaves = one ? 1 : stage_.leaves.per_rank();
  bucket.passes = micro_batches / bucket.leaves;
  bucket.producers *= bucket.passes;
}

// Reduced leaf by leaf like the others, but all leaves in one.
bool Gradients::KeepsLeaves(const Bucket& bucket) const {
  return bucket.small && bucket.per_leaf && bucket.leaves > 1 && stage_.plan.groups.shard > 1;
}

// Into parts, as soon as a leaf has ended.
bool Gradients::ReducesLeaves(const Bucket& bucket) const {
  return bucket.per_leaf && !bucket.small && bucket.parts > 1;
}

int64_t Gradients::OffsetIn(const Bucket& bucket, int set) const {
  int64_t offset = 0;
  for (const int other : bucket.sets) {
    if (other == set) break;
    offset += stage_.SetOf(stage_.sets.sets[other]).elements;
  }
  return offset;
}

// One entry per call that adds to the bucket's gradient: a template may add to several of its sets.
std::vector<int> Gradients::BucketsOf(const Use& use) const {
  std::vector<int> found;
  const std::vector<int>& sets = stage_.graph.layers[use.layer].sets;
  for (const Formal& formal : stage_.graph.templates[use.template_index].formals) {
    if (formal.role != Role::kGradients) continue;
    const SetPlan* set = stage_.sets.Find(sets[formal.index]);
    const int index = bucket_of_set_[set - stage_.sets.sets.data()];
    if (index >= 0) found.push_back(index);
  }
  return found;
}

void Gradients::Before(int use) {
  BringBack(use);
  if (use + 1 < static_cast<int>(uses_.size())) BringBack(use + 1);
  first_products_.Before(uses_[use]);
  for (const int index : BucketsOf(uses_[use])) {
    Bucket& bucket = buckets_[index];
    const int64_t leaf = uses_[use].micro_batch / bucket.passes;
    if (!bucket.open.contains(leaf)) BeginLeaf(bucket, leaf);
  }
}

void Gradients::BringBack(int use) {
  for (const int index : BucketsOf(uses_[use])) {
    Bucket& bucket = buckets_[index];
    const auto away = bucket.away.find(uses_[use].micro_batch / bucket.passes);
    if (away == bucket.away.end()) continue;
    const std::string name = absl::StrCat("gradient of ", bucket.name);
    Operand& place = bucket.open[away->first];
    place.slot =
        AddSlot(absl::StrCat(name, " leaf ", away->first, " again"), place.bytes, DType::kF32);
    transfers_.Move(away->second, place, Purpose::kFetch, name);
    bucket.away.erase(away);
  }
}

void Gradients::PutAway(Bucket& bucket, int64_t leaf) {
  const std::string name = absl::StrCat("gradient of ", bucket.name);
  const Operand& place = bucket.open[leaf];
  Operand home = place;
  home.slot = AddHomeSlot(bucket, absl::StrCat(name, " leaf ", leaf), place.bytes);
  transfers_.Move(place, home, Purpose::kStash, name);
  bucket.away[leaf] = home;
}

int Gradients::AddHomeSlot(const Bucket& bucket, const std::string& name, int64_t bytes) {
  return stage_.assembler.AddTransient(
      Slot{.name = absl::StrCat(name, " at home"),
           .tier = stage_.plan.TierOf(bucket.home),
           .klass = SlotClass::kGradients,
           .bytes = bytes,
           .alignment = bucket.home == Home::kSsd ? kSsdBlock : kSlotAlignment});
}

int Gradients::AddSlot(std::string name, int64_t bytes, DType type) {
  return stage_.assembler.AddTransient(Slot{.name = std::move(name),
                                            .tier = stage_.plan.tier,
                                            .klass = SlotClass::kGradients,
                                            .bytes = bytes,
                                            .content = absl::StrCat("gradients, ", Name(type))});
}

void Gradients::BeginLeaf(Bucket& bucket, int64_t leaf) {
  Operand place{.bytes = LeafBytes(bucket.elements), .partial = bucket.partial};
  const std::string name = absl::StrCat("gradient of ", bucket.name);
  if (KeepsLeaves(bucket) && bucket.all_leaves < 0) {
    bucket.all_leaves = AddSlot(absl::StrCat(name, ", all leaves"),
                                bucket.leaves * SumBytes(bucket.elements), stage_.plan.gradient);
  }
  if (KeepsLeaves(bucket) && !Converts()) {
    place.slot = bucket.all_leaves;
    place.offset = leaf * place.bytes;
  } else {
    place.slot = AddSlot(bucket.leaves > 1 ? absl::StrCat(name, " leaf ", leaf) : name, place.bytes,
                         DType::kF32);
  }
  const int set = bucket.sets.size() > 1 ? -1 : stage_.sets.sets[bucket.sets.front()].index;
  first_products_.Begin(set, place, absl::StrCat("zero ", name));
  bucket.open[leaf] = place;
  bucket.left[leaf] = bucket.producers;
}

Operand Gradients::Bind(int set, const Use& use, int64_t bytes) const {
  const int index = bucket_of_set_[set];
  if (index < 0) return {};  // frozen: the layout refuses it by name
  const Bucket& bucket = buckets_[index];
  Operand operand = bucket.open.at(use.micro_batch / bucket.passes);
  operand.offset += LeafBytes(OffsetIn(bucket, set));
  operand.bytes = bytes;
  return operand;
}

void Gradients::After(int use) {
  ++calls_;
  const std::vector<int> buckets = BucketsOf(uses_[use]);
  for (size_t i = 0; i < buckets.size(); ++i) {
    Bucket& bucket = buckets_[buckets[i]];
    const int64_t leaf = uses_[use].micro_batch / bucket.passes;
    if (--bucket.left[leaf] == 0) {
      EndLeaf(buckets[i], leaf);
    } else if (const int next = next_use_[use][i];
               bucket.home != Home::kDevice && !KeepsLeaves(bucket) && next > use + 1) {
      const bool tied = uses_[next].layer != uses_[use].layer;
      ties_ |= tied;
      if (!tied || !tied_stay_) PutAway(bucket, leaf);
    }
  }
  FlushPending(calls_ - kCallsBeforeCombining);
  FlushWhole(calls_ - kCallsBeforeCombining);
}

void Gradients::EndLeaf(int index, int64_t leaf) {
  Bucket& bucket = buckets_[index];
  Operand place = bucket.open[leaf];
  bucket.open.erase(leaf);
  ++bucket.ended;
  if (Converts()) place = EndInType(bucket, leaf, place);
  if (KeepsLeaves(bucket)) {
    if (bucket.ended == bucket.leaves) FinishKeptLeaves(bucket);
    return;
  }
  const std::string leaf_of =
      bucket.leaves > 1 ? absl::StrCat(bucket.name, " leaf ", leaf) : bucket.name;
  const std::string label = absl::StrCat("reduce ", leaf_of);
  if (ReducesLeaves(bucket)) {
    const int part = AddSlot(absl::StrCat("part of gradient of ", bucket.name, " leaf ", leaf),
                             place.bytes / bucket.parts, stage_.plan.gradient);
    place = ReduceScatter(place, Whole(part, place.bytes / bucket.parts), label);
  }
  const bool first =
      bucket.sums.empty() && std::none_of(pending_.begin(), pending_.end(),
                                          [&](const Pending& p) { return p.bucket == index; });
  if (first || !ReducesLeaves(bucket)) {
    Push(index, place);
  } else {
    pending_.push_back({index, place, calls_});
  }
}

// The leaf in the type of sums.
Operand Gradients::EndInType(const Bucket& bucket, int64_t leaf, const Operand& place) {
  const std::string type = Name(stage_.plan.gradient);
  Operand to{.bytes = SumBytes(bucket.elements), .partial = place.partial};
  if (KeepsLeaves(bucket)) {
    to.slot = bucket.all_leaves;
    to.offset = leaf * to.bytes;
  } else {
    to.slot = AddSlot(absl::StrCat("gradient of ", bucket.name, " leaf ", leaf, " in ", type),
                      to.bytes, stage_.plan.gradient);
  }
  to.access = Access::kWrite;
  Operand from = place;
  from.access = Access::kRead;
  const DType sums = stage_.plan.gradient;
  stage_.assembler.CallOp(ops::ToOp(ops::Convert{.elements = bucket.elements, .to = sums}),
                          Purpose::kCombine,
                          absl::StrCat("gradient of ", bucket.name, " to ", type), {to, from});
  return to;
}

void Gradients::FlushPending(int64_t older_than) {
  std::vector<Pending> waiting;
  for (const Pending& pending : std::exchange(pending_, {})) {
    if (pending.call <= older_than) {
      Push(pending.bucket, pending.place);
    } else {
      waiting.push_back(pending);
    }
  }
  pending_ = std::move(waiting);
}

// Leaves arrive in ascending order.
void Gradients::Push(int index, const Operand& place) {
  Bucket& bucket = buckets_[index];
  bucket.sums.push_back({place});
  const auto count = [&] { return bucket.sums.size(); };
  while (count() > 1 &&
         (!bucket.tree || bucket.sums[count() - 1].level == bucket.sums[count() - 2].level)) {
    CombineTop(bucket);
  }
  if (++bucket.pushed < bucket.leaves) {
    if (bucket.home != Home::kDevice) TopGoesHome(bucket);
    return;
  }
  while (count() > 1) CombineTop(bucket);  // odd ones pass up
  Finish(bucket);
}

void Gradients::CombineTop(Bucket& bucket) {
  const std::string label = absl::StrCat("combine ", bucket.name);
  const Operand newest = bucket.sums.back().place;
  bucket.sums.pop_back();
  Sum& sum = bucket.sums.back();
  Operand into = sum.place, from = newest;
  if (bucket.home != Home::kDevice) {  // the older one comes back for it
    into = newest;
    from.slot = AddSlot(absl::StrCat("gradient of ", bucket.name, " again"), from.bytes,
                        stage_.plan.gradient);
    from.offset = 0;
    from.shard_group = Group::kNone;
    from.shard_stride = 0;
    transfers_.Move(sum.place, from, Purpose::kFetch, absl::StrCat("gradient of ", bucket.name));
  }
  into.access = Access::kAccumulate;
  const DType type = stage_.plan.gradient;
  stage_.assembler.CallOp(ops::ToOp(ops::Add{into.bytes / SizeOf(type), type}), Purpose::kCombine,
                          label, {into, from});
  sum.place = into;
  ++sum.level;
}

void Gradients::TopGoesHome(Bucket& bucket) {
  const size_t position = bucket.sums.size() - 1;
  Operand& place = bucket.sums.back().place;
  const std::string name = absl::StrCat("gradient of ", bucket.name);
  if (position == bucket.waiting.size()) {
    bucket.waiting.push_back(
        AddHomeSlot(bucket, absl::StrCat(name, " sum ", position), place.bytes));
  }
  Operand home = Whole(bucket.waiting[position], place.bytes);
  home.partial = place.partial;
  transfers_.Move(place, home, Purpose::kStash, name);
  place = home;
}

void Gradients::Finish(Bucket& bucket) {
  const std::string label = absl::StrCat("reduce ", bucket.name);
  bucket.root = bucket.sums.front().place;
  bucket.root.access = Access::kRead;
  bucket.sums.clear();
  if (!ReducesLeaves(bucket)) {
    bucket.root = ReduceParts(bucket, bucket.root);
  } else if ((bucket.root.partial & PartialOver(Group::kReplica)) != 0) {
    bucket.root = AllReduce(bucket.root, Group::kReplica, absl::StrCat(label, " over replicas"));
  }
  bucket.root = ReduceInside(bucket.root, label);
  if (!IsEarly(bucket) || bucket.tied) return;
  whole_buckets_.push_back({static_cast<int>(&bucket - buckets_.data()), bucket.root, calls_});
  if (stage_.plan.groups.world() == 1) FlushWhole(calls_);
}

Operand Gradients::RoundRoot(const Bucket& bucket) {
  const DType type = stage_.plan.update_gradient();
  const int64_t elements = bucket.root.bytes / SizeOf(stage_.plan.gradient);
  Operand to = Whole(AddSlot(absl::StrCat("gradient of ", bucket.name, " in ", Name(type)),
                             BytesOf(type, elements), type),
                     BytesOf(type, elements));
  to.access = Access::kWrite;
  stage_.assembler.CallOp(
      ops::ToOp(ops::Convert{.elements = elements, .to = type}), Purpose::kStash,
      absl::StrCat("gradient of ", bucket.name, " to ", Name(type)), {to, bucket.root});
  to.access = Access::kRead;
  return to;
}

void Gradients::FlushWhole(int64_t older_than) {
  for (const Pending& pending : std::exchange(whole_buckets_, {})) {
    if (pending.call > older_than) {
      whole_buckets_.push_back(pending);
      continue;
    }
    Bucket& bucket = buckets_[pending.bucket];
    for (const int set : bucket.sets) whole_(set);
    if (Spools()) bucket.root = RoundRoot(bucket);
    bucket.rounded = Spools();
    if (bucket.home != Home::kDevice && !IsLast(bucket, pending.call)) {
      const std::string name = absl::StrCat("gradient of ", bucket.name);
      const Operand home = Whole(
          AddHomeSlot(bucket, absl::StrCat(name, ", whole"), bucket.root.bytes), bucket.root.bytes);
      transfers_.Move(bucket.root, home, Purpose::kStash, name);
      bucket.root = home;
    }
    for (const int set : bucket.sets) at_home_(set);
  }
}

// Over the shard group leaf by leaf, then the tree of the rank's own, then over replicas.
void Gradients::FinishKeptLeaves(Bucket& bucket) {
  const std::string label = absl::StrCat("reduce ", bucket.name);
  const int64_t bytes = SumBytes(bucket.elements);
  Operand all = Whole(bucket.all_leaves, bucket.leaves * bytes);
  all.partial = bucket.partial;
  all = AllReduce(all, stage_.plan.shard_group(), label);
  const int index = static_cast<int>(&bucket - buckets_.data());
  for (int64_t leaf = 0; leaf < bucket.leaves; ++leaf) {
    Operand place = all;
    place.offset = leaf * bytes;
    place.bytes = bytes;
    // Combined at the end, when the reduction need not be waited for any more.
    pending_.push_back({index, place, std::numeric_limits<int64_t>::max()});
  }
}

Operand Gradients::AllReduce(const Operand& place, Group group, const std::string& label) {
  Operand after = place;
  after.partial &= static_cast<Partial>(~PartialOver(group));
  stage_.assembler.Collective({.op = CollectiveOp::kAllReduce,
                               .group = group,
                               .dtype = stage_.plan.gradient,
                               .bytes = place.bytes},
                              Purpose::kReduce, Stream::kGradients, label, place, after,
                              stage_.plan.scratch);
  return after;
}

Operand Gradients::ReduceScatter(const Operand& from, Operand to, const std::string& label) {
  const Group group = stage_.plan.shard_group();
  to.partial = from.partial & static_cast<Partial>(~PartialOver(group));
  stage_.assembler.Collective({.op = CollectiveOp::kReduceScatter,
                               .group = group,
                               .dtype = stage_.plan.gradient,
                               .bytes = to.bytes},
                              Purpose::kReduce, Stream::kGradients, label, from, to,
                              stage_.plan.scratch);
  return to;
}

Operand Gradients::ReduceInside(Operand place, const std::string& label) {
  for (const Group group : {Group::kTensor, Group::kContext}) {
    if ((place.partial & PartialOver(group)) == 0) continue;
    place = AllReduce(place, group, absl::StrCat(label, " over ", Name(group)));
  }
  return place;
}

Operand Gradients::ReduceParts(const Bucket& bucket, Operand place) {
  const std::string label = absl::StrCat("reduce ", bucket.name);
  const Group left{static_cast<Axes>(place.partial & PartialOver(Group::kData))};
  if (left == Group::kNone) return place;
  if (bucket.parts == 1) return AllReduce(place, left, label);
  // In place: the part of the slot that is this rank's.
  const Operand own = stage_.OwnPart(stage_.plan.shard_group(), place.slot, place.bytes);
  place = ReduceScatter(place, own, label);
  if ((place.partial & PartialOver(Group::kReplica)) == 0) return place;
  return AllReduce(place, Group::kReplica, absl::StrCat(label, " over replicas"));
}

void Gradients::ReduceTied() {
  FlushPending(std::numeric_limits<int64_t>::max());
  // In the graph's order, which both stages know.
  std::map<int, Bucket*> tied;
  for (Bucket& bucket : buckets_) {
    const SetPlan& set = stage_.sets.sets[bucket.sets.front()];
    if (set.tied()) tied[set.index] = &bucket;
  }
  for (auto& [index, bucket] : tied) {
    bucket->root = AllReduce(bucket->root, Group::kEmbedding,
                             absl::StrCat("reduce ", bucket->name, " over embedding"));
    if (!IsEarly(*bucket)) continue;
    whole_buckets_.push_back({static_cast<int>(bucket - buckets_.data()), bucket->root, calls_});
  }
}

void Gradients::Close() {
  FlushPending(std::numeric_limits<int64_t>::max());
  FlushWhole(std::numeric_limits<int64_t>::max());
}

Operand Gradients::OfUpdate(int set) const {
  const Bucket& bucket = buckets_[bucket_of_set_[set]];
  Operand operand = bucket.root;
  operand.access = Access::kRead;
  if (bucket.parts > 1) return operand;
  const DType type = bucket.rounded ? stage_.plan.update_gradient() : stage_.plan.gradient;
  operand.offset += BytesOf(type, OffsetIn(bucket, set));
  operand.bytes = BytesOf(type, stage_.SetOf(stage_.sets.sets[set]).elements);
  return operand;
}

Operand Gradients::Range(int set, int64_t row) const {
  const Bucket& bucket = buckets_[bucket_of_set_[set]];
  const int64_t bytes = SumBytes(stage_.SetOf(stage_.sets.sets[set]).elements);
  const int64_t range = bytes / stage_.leaves.rows();
  Operand operand = OfUpdate(set);
  if (bucket.parts == 1) {  // whole: the ranks of the norm's group take equal parts of it
    const Operand own = stage_.OwnPart(stage_.norm_group(), operand.slot, bytes);
    operand.shard_group = own.shard_group;
    operand.shard_stride = own.shard_stride;
  }
  operand.offset += row * range;
  operand.bytes = range;
  return operand;
}

}  // namespace strata::program
