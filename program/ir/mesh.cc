#include "program/ir/mesh.h"

#include <algorithm>

namespace strata::program {

int Mesh::coordinate(Axis axis, int rank) const {
  for (const Axis faster : order) {
    if (faster == axis) return rank % sizes.of(axis);
    rank /= sizes.of(faster);
  }
  return 0;
}

int Mesh::RankAt(const std::array<int, kAxisCount>& coordinates) const {
  int rank = 0, stride = 1;
  for (const Axis axis : order) {
    rank += coordinates[static_cast<int>(axis)] * stride;
    stride *= sizes.of(axis);
  }
  return rank;
}

GroupSpan Mesh::SpanOf(Group group) const {
  GroupSpan span{.ranks = sizes.of(group)};
  for (const Axis axis : order) {
    if ((group.axes & Bit(axis)) != 0 && sizes.of(axis) > 1) {
      if (axis == Axis::kStage && group.stage_ends) span.stride *= sizes.of(axis) - 1;
      break;
    }
    span.stride *= sizes.of(axis);
  }
  return span;
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
