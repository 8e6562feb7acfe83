#include "program/ir/mesh.h"

#include <algorithm>

namespace strata::program {

std::vector<int> Mesh::Members(Group group, int rank) const {
  const int context_stride = sizes.tensor, stage_stride = context_stride * sizes.context;
  const int data_stride = stage_stride * sizes.pipeline;
  const auto along = [&](int stride, int count, int own) {
    std::vector<int> members(count);
    for (int i = 0; i < count; ++i) members[i] = rank + (i - own) * stride;
    return members;
  };
  switch (group) {
    case Group::kNone:
      return {rank};
    case Group::kWorld: {
      std::vector<int> all(ranks());
      for (int i = 0; i < ranks(); ++i) all[i] = i;
      return all;
    }
    case Group::kData:
      return along(data_stride, sizes.data, data(rank));
    case Group::kTensor:
      return along(1, sizes.tensor, tensor(rank));
    case Group::kContext:
      return along(context_stride, sizes.context, context(rank));
    case Group::kPipeline:
      return along(stage_stride, sizes.pipeline, stage(rank));
    case Group::kEmbedding: {
      const std::vector<int> pipeline = along(stage_stride, sizes.pipeline, stage(rank));
      if (sizes.pipeline == 1) return pipeline;
      return {pipeline.front(), pipeline.back()};
    }
  }
  return {};
}

int Mesh::IndexIn(Group group, int rank) const {
  const std::vector<int> members = Members(group, rank);
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

}  // namespace strata::program
