#include "scheduler/queue/reasons.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/units.h"

namespace strata::scheduler {
namespace {

constexpr size_t kNamed = 3;  // more are counted, not named

std::string Listed(std::vector<std::string> names) {
  const size_t more = names.size() > kNamed ? names.size() - kNamed : 0;
  names.resize(names.size() - more);
  std::string text = absl::StrJoin(names, ", ");
  if (more > 0) absl::StrAppend(&text, " and ", more, " more");
  return text;
}

std::string Devices(size_t count) {
  return absl::StrCat(count, count == 1 ? " device" : " devices");
}

std::string KindText(const Shape& shape) {
  const char* const devices = shape.ranks() == 1 ? "device" : "devices";
  return shape.device == "gpu" ? absl::StrCat(devices, " of one GPU kind")
                               : absl::StrCat(shape.device, " ", devices);
}

}  // namespace

std::string NodesText(const topology::Cluster& cluster, std::vector<int> nodes) {
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::vector<std::string> names;
  for (int node : nodes) {
    // Only the first few are named.
    names.push_back(names.size() < kNamed ? cluster.nodes()[node].name : "");
  }
  return Listed(std::move(names));
}

std::string NodesText(const topology::Cluster& cluster, const Placement& placement) {
  std::vector<int> nodes;
  nodes.reserve(placement.ranks.size());
  for (const Device& d : placement.ranks) nodes.push_back(d.node);
  return NodesText(cluster, std::move(nodes));
}

std::string HoldersText(const Board& board, const std::vector<Holder>& holders) {
  std::vector<std::string> texts;
  for (const Holder& holder : holders) {
    const double left = std::max(0.0, holder.until - board.view().now);
    const bool known = holder.job->seconds_left.has_value();
    texts.push_back(absl::StrCat(
        holder.job->name, " (", Devices(holder.devices.size()), ", ",
        known ? absl::StrCat("~", common::FormatSeconds(left), " left") : "time left unknown",
        ")"));
  }
  return Listed(std::move(texts));
}

std::string CountText(const Board& board, const Shape& shape, const Occupancy& room,
                      const KindSet& kinds) {
  const int64_t free = Board::MostOf(board.CountByKind(room), kinds);
  return absl::StrCat("needs ", shape.ranks(), " ", KindText(shape), ", ", free,
                      free == 1 ? " is free" : " are free");
}

std::string HeldBackText(const Board& board, const Occupancy& held_back, const KindSet& kinds) {
  const int64_t count = Board::MostOf(board.CountByKind(held_back), kinds);
  return count == 0 ? ""
                    : absl::StrCat(count, count == 1 ? " more is" : " more are",
                                   " held back by scheduling.buffer for ranks that lose theirs");
}

std::string ReasonOf(const std::vector<Blocker>& blockers) {
  return absl::StrJoin(blockers, "; ", [](std::string* out, const Blocker& blocker) {
    absl::StrAppend(out, blocker.text);
  });
}

namespace {

std::vector<Blocker> HeldBy(const std::vector<std::string>& jobs, const std::string& what) {
  std::vector<Blocker> blockers;
  for (const std::string& job : jobs) {
    blockers.push_back({Blocker::Code::kDevices, job, absl::StrCat(job, what)});
  }
  return blockers;
}

}  // namespace

Waiting WaitsForStopping(const Board& board, const Placement& placement) {
  Occupancy devices;
  devices.free.resize(board.cluster().nodes().size(), 0);
  Put(board.cluster(), placement.ranks, devices);
  std::vector<std::string> names;
  for (const Holder& holder : board.stopping()) {
    if (Touches(holder.devices, devices)) names.push_back(holder.job->name);
  }
  Waiting waiting{.reason = "devices that another job gives up are not free yet",
                  .starts_when = "when they are",
                  .starts_at = board.view().now + kStopSeconds};
  if (names.empty()) {
    waiting.blockers = {{Blocker::Code::kDevices, "", waiting.reason}};
    return waiting;
  }
  waiting.blockers = HeldBy(names, " still stops on its devices");
  const std::string jobs = Listed(std::move(names));
  waiting.reason = absl::StrCat("has its place; ", jobs, " still stops there");
  waiting.starts_when = absl::StrCat("when the ranks of ", jobs, " have ended");
  return waiting;
}

Waiting WaitsForVictims(const Board& board, const std::vector<const JobView*>& victims) {
  std::vector<std::string> names;
  for (const JobView* victim : victims) names.push_back(victim->name);
  const bool one = names.size() == 1;
  Waiting waiting{.reason = "", .starts_when = "", .starts_at = board.view().now + kStopSeconds};
  waiting.blockers = HeldBy(names, " is preempted and stops at its next checkpoint");
  const std::string jobs = Listed(std::move(names));
  waiting.reason = absl::StrCat("preempts ", jobs, ", which ",
                                one ? "stops at its" : "stop at their", " next checkpoint");
  waiting.starts_when = absl::StrCat("when the ranks of ", jobs, " have ended");
  return waiting;
}

Waiting WaitsForReservation(const Board& board, const Reservation& reservation,
                            std::vector<Blocker> lack) {
  Waiting waiting{.reason = absl::StrCat(ReasonOf(lack), "; reserved on ",
                                         NodesText(board.cluster(), reservation.placement)),
                  .starts_when = absl::StrCat("when ", HoldersText(board, reservation.needs),
                                              reservation.needs.size() == 1 ? " ends" : " end"),
                  .blockers = std::move(lack)};
  bool known = true;
  for (const Holder& holder : reservation.needs) {
    known = known && holder.job->seconds_left.has_value();
    waiting.blockers.push_back({Blocker::Code::kDevices, holder.job->name,
                                absl::StrCat(HoldersText(board, {holder}), " has what it needs")});
  }
  if (known) waiting.starts_at = reservation.at;
  return waiting;
}

Waiting WaitsBehind(const Board& board, const Reservation& reservation) {
  const std::string& head = reservation.job->name;
  const std::string reason =
      absl::StrCat("behind ", head, " (priority ", reservation.priority, "), which is reserved on ",
                   NodesText(board.cluster(), reservation.placement));
  return {.reason = reason,
          .starts_when =
              absl::StrCat("when ", head, " has started, or when it fits beside that reservation"),
          .blockers = {{Blocker::Code::kReservation, head, reason}}};
}

}  // namespace strata::scheduler
