// Gradients of a stage: partial sums of leaves, combined in the fixed tree with as few bytes as it
// allows, reduced over groups as soon as their last producer has ended.
//
// A leaf's gradient is whole on its rank while layers add to it. Reduce::kPerStep: leaves combine
// on the rank and the root is reduced (summed on all ranks, or, where state is cut, into each
// rank's part). Reduce::kPerLeaf: every leaf is reduced into parts, which combine; ranks of a shard
// group hold neighbouring leaves (see Leaves), so that both give the same tree. Without a tree,
// parts are added left to right into one.
//
// Kernels add in f32. Where sums have fewer bits (Plan::gradient), a leaf that has ended is rounded
// to them, and then summed over micro-batches and ranks, each sum computed in f32.
//
// Sets of vectors (norms, biases) are kept side by side in one slot and reduced together at the end
// of the step: each alone would be a message of a few kilobytes. Where others are reduced leaf by
// leaf, theirs are kept leaf by leaf and reduced in one.
//
// Beyond the device gradients wait: those of an unfinished leaf between the uses that add to them,
// sums until the next leaf's, and whole ones until the update. All sums are computed on the device.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_GRADIENTS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_GRADIENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/compose/sources/first_products.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/transfers.h"

namespace strata::program {

class Gradients {
 public:
  // `uses`: of the program, in the order of Before. `tied_stay`: what another layer adds to next
  // does not go home until then. `whole`: called when a set's gradient is whole, still on the
  // device (OfUpdate, Range), where IsEarly; then it goes home, and `at_home` is called.
  Gradients(const Stage& stage, int micro_batches, std::vector<Use> uses, bool tied_stay,
            Transfers& transfers, std::function<void(int set)> whole,
            std::function<void(int set)> at_home);

  // Whether something left, or stayed for `tied_stay` alone.
  bool ties() const { return ties_; }

  // Whether what follows from the set's gradient begins before the step's last one is whole.
  bool IsEarly(int set) const { return IsEarly(buckets_[bucket_of_set_[set]]); }

  void Before(int use);  // begins the leaves that the use is the first to add to
  // To be called for the use that Before was called for.
  int TemplateToCall() { return first_products_.TemplateToCall(); }
  Operand Bind(int set, const Use& use, int64_t bytes) const;
  void After(int use);  // ends those that it is the last to add to
  // Sums what the first and the last stage hold both, when each has ended its own.
  void ReduceTied();
  // After the last use. From then on:
  void Close();
  // the gradient that the set's update reads: whole, or the rank's part,
  Operand OfUpdate(int set) const;
  // and range `row` of those that the rank sums the squares of: rows / norm group of them.
  Operand Range(int set, int64_t row) const;

 private:
  struct Sum {
    Operand place;
    int level = 0;
  };
  // Sets whose gradients lie side by side and are reduced together: one, or all small ones.
  struct Bucket {
    std::string name;
    std::vector<int> sets;  // positions in StagePlan::sets
    int64_t elements = 0;
    Partial partial = 0;  // of a leaf
    bool per_leaf = false;
    bool small = false;
    bool tied = false;
    Home home = Home::kDevice;
    int parts = 1;       // after the reduction
    int64_t leaves = 1;  // of the rank
    int64_t passes = 1;  // micro-batches of a leaf
    bool tree = true;
    int64_t producers = 0;  // calls per leaf
    int all_leaves = -1;    // slot of all leaves side by side; -1: each has a slot of its own
    std::map<int64_t, Operand> open;  // by leaf
    std::map<int64_t, Operand> away;  // of the open ones those that are at home
    std::map<int64_t, int64_t> left;  // producers to come, by leaf
    std::vector<Sum> sums;            // finished, the newest last
    std::vector<int> waiting;         // slots at home of sums, by position in `sums`
    int64_t ended = 0, pushed = 0;    // leaves
    Operand root;
    bool rounded = false;  // the root
  };
  struct Pending {
    int bucket = -1;
    Operand place;
    int64_t call = 0;  // after which it was issued
  };

  void AddBucket(const SetPlan& set, int position, std::map<Partial, int>& small);
  void SizeBucket(Bucket& bucket, int micro_batches) const;
  bool KeepsLeaves(const Bucket& bucket) const;
  bool ReducesLeaves(const Bucket& bucket) const;
  bool IsEarly(const Bucket& bucket) const {
    return bucket.home != Home::kDevice || Spools() ||
           stage_.plan.update == UpdatePolicy::kSpeculative;
  }
  void FindNextUses();
  std::vector<int> BucketsOf(const Use& use) const;
  // Elements of the bucket before the set's.
  int64_t OffsetIn(const Bucket& bucket, int set) const;
  // Of elements in the type that sums have, and in that in which kernels add.
  int64_t SumBytes(int64_t elements) const { return BytesOf(stage_.plan.gradient, elements); }
  static int64_t LeafBytes(int64_t elements) { return BytesOf(DType::kF32, elements); }
  bool Converts() const { return stage_.plan.gradient != DType::kF32; }

  int AddSlot(std::string name, int64_t bytes, DType type);
  void BeginLeaf(Bucket& bucket, int64_t leaf);
  void EndLeaf(int index, int64_t leaf);
  // Of an open leaf: home until its next use, and back before it.
  void PutAway(Bucket& bucket, int64_t leaf);
  void BringBack(int use);
  int AddHomeSlot(const Bucket& bucket, const std::string& name, int64_t bytes);
  Operand EndInType(const Bucket& bucket, int64_t leaf, const Operand& place);
  void Push(int index, const Operand& place);
  void CombineTop(Bucket& bucket);
  void TopGoesHome(Bucket& bucket);
  void Finish(Bucket& bucket);
  void FinishKeptLeaves(Bucket& bucket);
  // A sum over the group, in place; the operand as it is afterwards.
  Operand AllReduce(const Operand& place, Group group, const std::string& label);
  Operand ReduceScatter(const Operand& from, Operand to, const std::string& label);
  // The axes inside a replica of the model last: leaves first, so that the bits do not depend on
  // how data is divided; and once a step.
  Operand ReduceInside(Operand place, const std::string& label);
  Operand ReduceParts(const Bucket& bucket, Operand place);
  void FlushPending(int64_t older_than);
  // Whole ones are rounded to what updates read.
  bool Spools() const { return stage_.plan.update_gradient() != stage_.plan.gradient; }
  Operand RoundRoot(const Bucket& bucket);
  // Early ones whose root is whole on the device.
  void FlushWhole(int64_t older_than);
  // Whole after the last use, when the first updates are about to read it, and of a range at least:
  // a way to the disk and back would be most of what the next step's first layer waits for.
  bool IsLast(const Bucket& bucket, int64_t call) const {
    return bucket.home == Home::kSsd && call == static_cast<int64_t>(uses_.size()) &&
           LeafBytes(bucket.elements) >= stage_.plan.most_range_bytes();
  }

  const Stage& stage_;
  Transfers& transfers_;
  const std::function<void(int set)> whole_, at_home_;
  const std::vector<Use> uses_;
  const bool tied_stay_;
  bool ties_ = false;
  // Per use and entry of BucketsOf: the next use that adds to the same leaf.
  std::vector<std::vector<int>> next_use_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_set_;  // per set of the stage; -1: frozen
  std::vector<Pending> pending_;
  std::vector<Pending> whole_buckets_;
  int64_t calls_ = 0;
  FirstProducts first_products_;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_GRADIENTS_H_
