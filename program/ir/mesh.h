// A mesh of ranks: which concrete ranks a symbolic group means for one of them.
#ifndef STRATA_PROGRAM_IR_MESH_H_
#define STRATA_PROGRAM_IR_MESH_H_

#include <array>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// Ranks are numbered through the mesh's dimensions in `order`, fastest first, as the placement
// says (RankLayout.order). Groups follow coordinates, never numbers.
struct Mesh {
  enum class Dimension : uint8_t { kTensor, kContext, kPipeline, kData };

  GroupSizes sizes;
  std::array<Dimension, 4> order{Dimension::kTensor, Dimension::kContext, Dimension::kPipeline,
                                 Dimension::kData};

  int ranks() const { return sizes.world(); }
  int coordinate(Dimension dimension, int rank) const;
  int tensor(int rank) const { return coordinate(Dimension::kTensor, rank); }
  int context(int rank) const { return coordinate(Dimension::kContext, rank); }
  int stage(int rank) const { return coordinate(Dimension::kPipeline, rank); }
  int data(int rank) const { return coordinate(Dimension::kData, rank); }
  // data = replica · shard degree + shard.
  int replica(int rank) const { return data(rank) / sizes.shard; }
  int shard(int rank) const { return data(rank) % sizes.shard; }
  int coordinate(Axis axis, int rank) const;
  // The rank with these coordinates.
  int RankAt(const std::array<int, kAxisCount>& coordinates) const;

  // Members of the rank's group in the order of their coordinates, axes from slowest to fastest as
  // Axis lists them. Empty: the rank is no member (kEmbedding in the middle of a pipeline).
  std::vector<int> Members(Group group, int rank) const;
  // The rank's place in it; -1: it is no member.
  int IndexIn(Group group, int rank) const;

 private:
  int size(Dimension dimension) const;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_MESH_H_
