#include "scheduler/placement/lost_groups.h"

#include <algorithm>
#include <map>
#include <set>

namespace strata::scheduler {

Block LostGroups::Around(int cell, const std::vector<int>& axes) const {
  for (const int axis : axes) cell -= grid_.Coordinate(cell, axis) * grid_.axes[axis].stride;
  std::vector<int> cells = {cell};
  for (const int axis : axes) {
    const size_t before = cells.size();
    for (int i = 1; i < grid_.axes[axis].degree; ++i) {
      for (size_t k = 0; k < before; ++k) cells.push_back(cells[k] + i * grid_.axes[axis].stride);
    }
  }
  return Counted(std::move(cells));
}

Block LostGroups::Counted(std::vector<int> cells) const {
  Block block = {std::move(cells)};
  for (const int cell : block.cells) {
    if (node_of_[cell] < 0) {
      ++block.lost;
      continue;
    }
    const int zone = ZoneOf(node_of_[cell]);
    block.torn |= block.zone >= 0 && block.zone != zone;
    block.zone = zone;
  }
  if (block.torn) block.zone = -1;
  return block;
}

std::vector<Block> LostGroups::ThatLost(const std::vector<int>& axes) const {
  std::map<int, Block> blocks;
  for (int cell = 0; cell < grid_.cells; ++cell) {
    if (node_of_[cell] >= 0) continue;
    Block block = Around(cell, axes);
    blocks.try_emplace(block.cells[0], std::move(block));
  }
  std::vector<Block> found;
  for (auto& [first, block] : blocks) found.push_back(std::move(block));
  return found;
}

std::vector<Block> LostGroups::ZonesThatLost(const std::vector<int>& anchors) const {
  std::map<int, std::vector<int>> cells;
  for (const int zone : anchors) {
    if (zone >= 0) cells[zone];
  }
  for (int cell = 0; cell < grid_.cells; ++cell) {
    const int zone = node_of_[cell] < 0 ? anchors[cell] : ZoneOf(node_of_[cell]);
    if (const auto at = cells.find(zone); at != cells.end()) at->second.push_back(cell);
  }
  std::vector<Block> found;
  for (auto& [zone, of_zone] : cells) found.push_back(Counted(std::move(of_zone)));
  return found;
}

std::vector<int> LostGroups::Anchors() const {
  std::vector<int> anchors(grid_.cells, -1);
  for (int cell = 0; cell < grid_.cells; ++cell) {
    if (node_of_[cell] < 0) anchors[cell] = AnchorOf(cell);
  }
  return anchors;
}

int LostGroups::AnchorOf(int cell) const {
  const Block pipeline = Around(cell, {kPipelineAxis});
  if (pipeline.zone >= 0) return pipeline.zone;
  if (pipeline.torn) return Around(cell, {kContextAxis}).zone;
  return Around(cell, {kPipelineAxis, kContextAxis}).zone;
}

Splits LostGroups::LeastSplits(const std::vector<int>& anchors) const {
  return {LeastSplit(kPipelineAxis, anchors), LeastSplit(kContextAxis, anchors)};
}

int64_t LostGroups::LeastSplit(int axis, const std::vector<int>& anchors) const {
  const Axis& of = grid_.axes[axis];
  if (of.degree == 1) return 0;
  int64_t split = 0;
  for (int block = 0; block < grid_.cells; block += of.stride * of.degree) {
    for (int first = block; first < block + of.stride; ++first) {
      int zone = -1;
      bool across = false;
      for (int cell = first; cell < block + of.stride * of.degree; cell += of.stride) {
        const int at = node_of_[cell] < 0 ? anchors[cell] : ZoneOf(node_of_[cell]);
        across |= zone >= 0 && at >= 0 && at != zone;
        zone = std::max(zone, at);
      }
      split += across;
    }
  }
  return split;
}

}  // namespace strata::scheduler
