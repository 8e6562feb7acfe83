#include "program/compose/sources/gradients.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/convert.h"
#include "ops/elementwise.h"
#include "program/compose/sources/state.h"

namespace strata::program {
namespace {

// Additions of what communication brings are issued this many calls later: the compute stream runs
// in order, and would wait.
constexpr int64_t kCallsBeforeCombining = 2;

}  // namespace

Gradients::Gradients(const Stage& stage, int micro_batches, Slabs& slabs,
                     std::function<void(int set)> in_slab)
    : stage_(stage), slabs_(slabs), in_slab_(std::move(in_slab)) {
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
}

void Gradients::AddBucket(const SetPlan& set, int position, std::map<Partial, int>& small) {
  const ParameterSet& of = stage_.SetOf(set);
  int index = static_cast<int>(buckets_.size());
  // A slab holds one set's, and direct I/O begins at whole blocks.
  const bool shares = set.small && !set.tied() && stage_.plan.home != Home::kSsd;
  if (shares) index = small.try_emplace(set.partial, index).first->second;
  if (index == static_cast<int>(buckets_.size())) {
    buckets_.push_back({.name = of.name,
                        .partial = set.partial,
                        .per_leaf = set.reduce == Reduce::kPerLeaf,
                        .small = set.small,
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

// Home, as soon as a leaf has ended: all but what ranks have yet to sum at the end.
bool Gradients::BringsLeaves(const Bucket& bucket) const {
  return stage_.plan.beyond_device() && (bucket.parts > 1 || stage_.plan.groups.data == 1);
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

void Gradients::Before(const Use& use) {
  for (const int index : BucketsOf(use)) {
    Bucket& bucket = buckets_[index];
    const int64_t leaf = use.micro_batch / bucket.passes;
    if (!bucket.open.contains(leaf)) BeginLeaf(bucket, leaf);
  }
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
  stage_.assembler.Zero(place, Purpose::kBackward, absl::StrCat("zero ", name));
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

void Gradients::After(const Use& use) {
  ++calls_;
  for (const int index : BucketsOf(use)) {
    const int64_t leaf = use.micro_batch / buckets_[index].passes;
    if (--buckets_[index].left[leaf] == 0) EndLeaf(index, leaf);
  }
  FlushPending(calls_ - kCallsBeforeCombining);
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
  // Groups do not reach what is at home beyond the device.
  if (BringsLeaves(bucket)) place = ReduceInside(place, label);
  if (ReducesLeaves(bucket)) {
    const int part = AddSlot(absl::StrCat("part of gradient of ", bucket.name, " leaf ", leaf),
                             place.bytes / bucket.parts, stage_.plan.gradient);
    place = ReduceScatter(place, Whole(part, place.bytes / bucket.parts), label);
  }
  if (BringsLeaves(bucket)) {
    Push(index, Bring(place, absl::StrCat("gradient of ", leaf_of)));
    return;
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

Operand Gradients::Bring(const Operand& from, const std::string& label) {
  Operand to;
  if (stage_.plan.home == Home::kSsd) {
    to = slabs_.Next(from.bytes);
  } else {
    to = Whole(stage_.assembler.AddTransient(Slot{.name = absl::StrCat(label, " on the host"),
                                                  .tier = Tier::kHost,
                                                  .klass = SlotClass::kGradients,
                                                  .bytes = from.bytes}),
               from.bytes);
  }
  to.partial = from.partial;
  stage_.assembler.Transfer(Stream::kEvict, Purpose::kStash, label, from, to);
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
    if (Spools(bucket)) SpoolTop(bucket);
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
  if (Spools(bucket)) {  // the newest is in a slab, and the older one read into another
    into = newest;
    from = slabs_.Read(sum.place, Purpose::kFetch, absl::StrCat("read gradient of ", bucket.name),
                       newest.slot);
  }
  into.access = Access::kAccumulate;
  const DType type = stage_.plan.gradient;
  Op add = ops::ToOp(ops::Add{into.bytes / SizeOf(type), type});
  add.flops = static_cast<double>(into.bytes / SizeOf(type));
  stage_.assembler.CallOp(std::move(add), Purpose::kCombine, label, {into, from},
                          BringsLeaves(bucket) ? stage_.plan.home_stream() : Stream::kCompute);
  sum.place = into;
  ++sum.level;
}

void Gradients::SpoolTop(Bucket& bucket) {
  const size_t position = bucket.sums.size() - 1;
  Operand& place = bucket.sums.back().place;
  const std::string label = absl::StrCat("gradient of ", bucket.name);
  if (position == bucket.spool.size()) {
    bucket.spool.push_back(stage_.assembler.AddTransient(Slot{.name = label,
                                                              .tier = Tier::kSsd,
                                                              .klass = SlotClass::kGradients,
                                                              .bytes = place.bytes,
                                                              .alignment = kSsdBlock}));
  }
  const Operand spooled = Whole(bucket.spool[position], place.bytes);
  stage_.assembler.Transfer(Stream::kSsdWrite, Purpose::kStash, absl::StrCat("write ", label),
                            place, spooled);
  place = spooled;
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
  if (stage_.plan.beyond_device() && !BringsLeaves(bucket)) {
    bucket.root = Bring(bucket.root, absl::StrCat("gradient of ", bucket.name));
  }
  if (stage_.plan.home != Home::kSsd) return;
  for (const int set : bucket.sets) in_slab_(set);
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
  }
}

void Gradients::Close() { FlushPending(std::numeric_limits<int64_t>::max()); }

Operand Gradients::OfUpdate(int set) const {
  const Bucket& bucket = buckets_[bucket_of_set_[set]];
  Operand operand = bucket.root;
  operand.access = Access::kRead;
  if (bucket.parts > 1) return operand;
  operand.offset += SumBytes(OffsetIn(bucket, set));
  operand.bytes = SumBytes(stage_.SetOf(stage_.sets.sets[set]).elements);
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
