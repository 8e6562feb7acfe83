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
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_GRADIENTS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_GRADIENTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "program/compose/sources/slabs.h"
#include "program/compose/sources/stage.h"

namespace strata::program {

class Gradients {
 public:
  // `in_slab`: called where gradients pass through slabs, when a set's is whole in one (OfUpdate);
  // the slab is taken again afterwards.
  Gradients(const Stage& stage, int micro_batches, Slabs& slabs,
            std::function<void(int set)> in_slab);

  void Before(const Use& use);  // begins the leaves that the use is the first to add to
  Operand Bind(int set, const Use& use, int64_t bytes) const;
  void After(const Use& use);  // ends those that it is the last to add to
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
    int parts = 1;       // after the reduction
    int64_t leaves = 1;  // of the rank
    int64_t passes = 1;  // micro-batches of a leaf
    bool tree = true;
    int64_t producers = 0;  // calls per leaf
    int all_leaves = -1;    // slot of all leaves side by side; -1: each has a slot of its own
    std::map<int64_t, Operand> open;  // by leaf
    std::map<int64_t, int64_t> left;  // producers to come, by leaf
    std::vector<Sum> sums;            // finished, the newest last
    std::vector<int> spool;           // slots on SSD of sums that wait, by position in `sums`
    int64_t ended = 0, pushed = 0;    // leaves
    Operand root;
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
  bool BringsLeaves(const Bucket& bucket) const;
  bool Spools(const Bucket& bucket) const {
    return stage_.plan.home == Home::kSsd && BringsLeaves(bucket);
  }
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
  Operand EndInType(const Bucket& bucket, int64_t leaf, const Operand& place);
  void Push(int index, const Operand& place);
  void CombineTop(Bucket& bucket);
  void SpoolTop(Bucket& bucket);
  // From the device to the host, home or into a slab.
  Operand Bring(const Operand& from, const std::string& label);
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

  const Stage& stage_;
  Slabs& slabs_;
  const std::function<void(int set)> in_slab_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_set_;  // per set of the stage; -1: frozen
  std::vector<Pending> pending_;
  int64_t calls_ = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_GRADIENTS_H_
