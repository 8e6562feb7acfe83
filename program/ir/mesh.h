// A mesh of ranks: which concrete ranks a symbolic group means for one of them.
#ifndef STRATA_PROGRAM_IR_MESH_H_
#define STRATA_PROGRAM_IR_MESH_H_

#include <array>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// The members of a group: how many, and how far apart in ranks neighbours are.
struct GroupSpan {
  int ranks = 1;
  int stride = 1;
};

// Ranks are numbered through the mesh's axes in `order`, fastest first, as the placement says
// (RankLayout.order). Groups follow coordinates, never numbers.
struct Mesh {
  GroupSizes sizes;
  std::array<Axis, kAxisCount> order{Axis::kTensor, Axis::kContext, Axis::kExpert,
                                     Axis::kStage,  Axis::kShard,   Axis::kReplica};

  int ranks() const { return sizes.world(); }
  int coordinate(Axis axis, int rank) const;
  int tensor(int rank) const { return coordinate(Axis::kTensor, rank); }
  int context(int rank) const { return coordinate(Axis::kContext, rank); }
  int stage(int rank) const { return coordinate(Axis::kStage, rank); }
  int shard(int rank) const { return coordinate(Axis::kShard, rank); }
  int replica(int rank) const { return coordinate(Axis::kReplica, rank); }
  // The rank's place in the data group, wherever the order has shards and replicas.
  int data(int rank) const { return replica(rank) * sizes.shard + shard(rank); }
  // The rank with these coordinates.
  int RankAt(const std::array<int, kAxisCount>& coordinates) const;

  // Along the fastest of the group's axes, where it has several.
  GroupSpan SpanOf(Group group) const;
  // Members of the rank's group in the order of their coordinates, axes from slowest to fastest as
  // Axis lists them. Empty: the rank is no member (kEmbedding in the middle of a pipeline).
  std::vector<int> Members(Group group, int rank) const;
  // The rank's place in it; -1: it is no member.
  int IndexIn(Group group, int rank) const;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_MESH_H_
