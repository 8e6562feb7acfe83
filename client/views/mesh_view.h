// The mesh of a job's ranks as people and programs see it.
#ifndef STRATA_CLIENT_VIEWS_MESH_VIEW_H_
#define STRATA_CLIENT_VIEWS_MESH_VIEW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/views/structured.h"

namespace strata::client {

struct MeshView {
  struct Dimension {
    std::string name;  // with several shard groups "shard" and "replicate" make up data
    int64_t degree = 1;
  };
  struct Rank {
    int64_t rank = 0;
    std::string node;
    int device = 0;
    std::vector<int64_t> coordinates;  // along each dimension
  };
  std::vector<Dimension> dimensions;  // innermost first: rank = sum of coordinate x stride
  std::vector<Rank> ranks;            // all of them, or the first ones

  int64_t size() const;  // ranks that there are
};

// Each with its node, its device and its coordinate along every dimension, and along data where
// that has two parts.
Json RanksJson(const MeshView& mesh);

// The dimensions with their degrees and, where there are few ranks, their groups; the ranks.
Json ToJson(const MeshView& mesh);

// The groups of each dimension of several ranks, and a row per rank; of large jobs the first ones.
// Empty for a single rank.
std::string MeshText(const MeshView& mesh);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_MESH_VIEW_H_
