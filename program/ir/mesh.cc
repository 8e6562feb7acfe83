#include "program/ir/mesh.h"

#include <algorithm>

namespace strata::program {

int Mesh::size(Dimension dimension) const {
  switch (dimension) {
    case Dimension::kTensor:
      return sizes.tensor;
    case Dimension::kContext:
      return sizes.context;
    case Dimension::kPipeline:
      return sizes.pipeline;
    case Dimension::kData:
      return sizes.data;
  }
  return 1;
}

int Mesh::coordinate(Dimension dimension, int rank) const {
  for (const Dimension faster : order) {
    if (faster == dimension) return rank % size(dimension);
    rank /= size(faster);
  }
  return 0;
}

int Mesh::coordinate(Axis axis, int rank) const {
  switch (axis) {
    case Axis::kReplica:
      return replica(rank);
    case Axis::kShard:
      return shard(rank);
    case Axis::kStage:
      return stage(rank);
    case Axis::kContext:
      return context(rank);
    case Axis::kExpert:
      return 0;
    case Axis::kTensor:
      return tensor(rank);
  }
  return 0;
}

int Mesh::RankAt(const std::array<int, kAxisCount>& coordinates) const {
  const auto at = [&](Axis axis) { return coordinates[static_cast<int>(axis)]; };
  int rank = 0, stride = 1;
  for (const Dimension dimension : order) {
    int coordinate = 0;
    switch (dimension) {
      case Dimension::kTensor:
        coordinate = at(Axis::kTensor);
        break;
      case Dimension::kContext:
        coordinate = at(Axis::kContext);
        break;
      case Dimension::kPipeline:
        coordinate = at(Axis::kStage);
        break;
      case Dimension::kData:
        coordinate = at(Axis::kReplica) * sizes.shard + at(Axis::kShard);
    }
    rank += coordinate * stride;
    stride *= size(dimension);
  }
  return rank;
}

std::vector<int> Mesh::Members(Group group, int rank) const {
  std::array<int, kAxisCount> own{};
  for (int a = 0; a < kAxisCount; ++a) own[a] = coordinate(static_cast<Axis>(a), rank);
  // One axis after the other, the fastest innermost.
  std::vector<std::array<int, kAxisCount>> found{own};
  for (int a = 0; a < kAxisCount; ++a) {
    const Axis axis = static_cast<Axis>(a);
    if ((group.axes & Bit(axis)) == 0) continue;
    const int last = sizes.of(axis) - 1;
    const bool ends = axis == Axis::kStage && group.stage_ends;
    if (ends && own[a] != 0 && own[a] != last) return {};
    std::vector<std::array<int, kAxisCount>> next;
    for (const auto& at : found) {
      for (int i = 0; i <= last; i += ends ? std::max(1, last) : 1) {
        next.push_back(at);
        next.back()[a] = i;
      }
    }
    found = std::move(next);
  }
  std::vector<int> members;
  members.reserve(found.size());
  for (const auto& at : found) members.push_back(RankAt(at));
  return members;
}

int Mesh::IndexIn(Group group, int rank) const {
  const std::vector<int> members = Members(group, rank);
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

}  // namespace strata::program
