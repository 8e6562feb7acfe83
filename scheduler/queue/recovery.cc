#include "scheduler/queue/recovery.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/queue/reasons.h"

namespace strata::scheduler {
namespace {

constexpr size_t kData = static_cast<size_t>(planner::Dimension::kData);
constexpr size_t kReplicate = static_cast<size_t>(planner::Dimension::kReplicate);

int64_t RankOf(const planner::Degrees& coordinates, const planner::Degrees& degrees,
               const std::vector<planner::Dimension>& order) {
  int64_t rank = 0;
  int64_t stride = 1;
  for (planner::Dimension dimension : order) {
    const size_t d = static_cast<size_t>(dimension);
    rank += coordinates[d] * stride;
    stride *= degrees[d];
  }
  return rank;
}

bool Usable(const Board& board, const Device& d, const std::string& kind) {
  const auto& nodes = board.cluster().nodes();
  return d.node >= 0 && d.node < static_cast<int>(nodes.size()) && nodes[d.node].healthy &&
         nodes[d.node].kind == kind && d.device >= 0 && d.device < nodes[d.node].devices;
}

// Which of the data coordinates stay, ascending: those that lost the fewest ranks.
std::vector<int64_t> Kept(const std::vector<int64_t>& lost, int64_t data) {
  std::vector<int64_t> coordinates(lost.size());
  std::iota(coordinates.begin(), coordinates.end(), 0);
  std::stable_sort(coordinates.begin(), coordinates.end(),
                   [&](int64_t a, int64_t b) { return lost[a] < lost[b]; });
  coordinates.resize(std::min<size_t>(coordinates.size(), data));
  std::sort(coordinates.begin(), coordinates.end());
  return coordinates;
}

std::string Moves(const Board& board, const Placement& old, const Placement& now) {
  int64_t moved = 0;
  std::vector<int> to;
  for (size_t r = 0; r < now.ranks.size(); ++r) {
    if (old.ranks[r] == now.ranks[r]) continue;
    ++moved;
    to.push_back(now.ranks[r].node);
  }
  if (moved == 0) return "starts again where it was";
  return absl::StrCat("replaces ", moved, " of ", now.ranks.size(), " ranks: to ",
                      NodesText(board.cluster(), std::move(to)), "; the others stay");
}

}  // namespace

int64_t DataOf(const Shape& shape) { return shape.degrees[kData] * shape.degrees[kReplicate]; }

int64_t DataOf(const Shape& shape, int64_t ranks) {
  return ranks / (shape.ranks() / DataOf(shape));
}

Shape WithData(const Shape& shape, int64_t data) {
  Shape fewer = shape;
  const bool whole_groups = data % shape.degrees[kData] == 0;
  fewer.degrees[kData] = whole_groups ? shape.degrees[kData] : data;
  fewer.degrees[kReplicate] = whole_groups ? data / shape.degrees[kData] : 1;
  return fewer;
}

Placement Survivors(const Board& board, const JobView& job, const Shape& shape) {
  const Placement& held = *job.held;
  const Shape was = WithData(*job.shape, DataOf(*job.shape, held.ranks.size()));
  const int64_t shards = was.degrees[kData];
  std::vector<int64_t> lost(DataOf(was), 0);
  std::vector<planner::Degrees> coordinates(held.ranks.size());
  for (size_t r = 0; r < held.ranks.size(); ++r) {
    coordinates[r] = CoordinatesOf(static_cast<int64_t>(r), was.degrees, held.order);
    const bool usable = Usable(board, held.ranks[r], held.kind);
    lost[coordinates[r][kReplicate] * shards + coordinates[r][kData]] += usable ? 0 : 1;
  }
  const std::vector<int64_t> kept = Kept(lost, DataOf(shape));
  Placement survivors = held;
  survivors.ranks.assign(shape.ranks(), Device{});
  for (size_t r = 0; r < held.ranks.size(); ++r) {
    planner::Degrees at = coordinates[r];
    const int64_t data = at[kReplicate] * shards + at[kData];
    const auto place = std::lower_bound(kept.begin(), kept.end(), data);
    if (place == kept.end() || *place != data || !Usable(board, held.ranks[r], held.kind)) continue;
    const int64_t now = place - kept.begin();
    at[kData] = now % shape.degrees[kData];
    at[kReplicate] = now / shape.degrees[kData];
    survivors.ranks[RankOf(at, shape.degrees, held.order)] = held.ranks[r];
  }
  return survivors;
}

std::optional<Restored> Restore(Board& board, const JobView& job, const Shape& shape,
                                const Occupancy& room, const KindSet& kinds) {
  const std::string part =
      DataOf(shape) == DataOf(*job.shape)
          ? ""
          : absl::StrCat(" (data ", DataOf(shape), " of ", DataOf(*job.shape), ")");
  // A job that had fewer ranks than now has no old places for the others.
  const int64_t had = static_cast<int64_t>(job.held->ranks.size());
  if (had >= shape.ranks() && had % (shape.ranks() / DataOf(shape)) == 0) {
    const Placement old = Survivors(board, job, shape);
    std::vector<int> prefer;
    for (int node : job.held->spares) {
      const bool exists = node >= 0 && node < static_cast<int>(board.cluster().nodes().size());
      if (exists && board.cluster().nodes()[node].healthy) prefer.push_back(node);
    }
    board.Visit(static_cast<int64_t>(room.free.size()));
    if (auto placement = Replace(board.cluster(), board.OfKinds(room, kinds), shape, old, prefer)) {
      std::string why = absl::StrCat(Moves(board, old, *placement), part);
      return Restored{*std::move(placement), std::move(why)};
    }
  }
  if (auto placement = board.Fit(job, shape, room, kinds)) {
    std::string why = absl::StrCat("starts anew on ", NodesText(board.cluster(), *placement), part);
    return Restored{*std::move(placement), std::move(why)};
  }
  return std::nullopt;
}

}  // namespace strata::scheduler
