// A mesh of ranks: which concrete ranks a symbolic group means for one of them.
#ifndef STRATA_PROGRAM_IR_MESH_H_
#define STRATA_PROGRAM_IR_MESH_H_

#include <vector>

#include "program/ir/program.h"

namespace strata::program {

// Rank = ((data · pipelines + pipeline) · contexts + context) · tensors + tensor: tensor varies
// fastest.
struct Mesh {
  GroupSizes sizes;

  int ranks() const { return sizes.world(); }
  int tensor(int rank) const { return rank % sizes.tensor; }
  int context(int rank) const { return rank / sizes.tensor % sizes.context; }
  int stage(int rank) const { return rank / (sizes.tensor * sizes.context) % sizes.pipeline; }
  int data(int rank) const { return rank / (sizes.tensor * sizes.context * sizes.pipeline); }

  // Members of the rank's group, in the group's order. kEmbedding: the first and the last stage of
  // its pipeline.
  std::vector<int> Members(Group group, int rank) const;
  // The rank's place in it; -1: it is no member (kEmbedding in the middle of a pipeline).
  int IndexIn(Group group, int rank) const;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_IR_MESH_H_
