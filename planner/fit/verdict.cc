#include "planner/fit/verdict.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "planner/fit/devices.h"
#include "planner/job/job_plan.h"

namespace strata::planner {
namespace {

using program::Tier;

constexpr int64_t kSsdBlock = 4096;  // bytes

// At most what a number holds, which no machine has.
int64_t Times(int64_t bytes, int64_t count) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return bytes > kMost / count ? kMost : bytes * count;
}

ByteClass MostOf(const TierBytes& tier) {
  const auto most = std::max_element(tier.bytes.begin(), tier.bytes.end());
  return static_cast<ByteClass>(most - tier.bytes.begin());
}

// Keeps the limit that is exceeded most, or is nearest to be.
class Tightest {
 public:
  void Look(const Verdict& at) {
    if (at.limit <= 0) return;
    const bool first = verdict_.limit == 0;
    const double load = static_cast<double>(at.needed) / static_cast<double>(at.limit);
    if (!first && load <= load_) return;
    verdict_ = at;
    verdict_.fits = at.needed <= at.limit;
    load_ = load;
  }
  const Verdict& verdict() const { return verdict_; }

 private:
  Verdict verdict_;
  double load_ = 0;
};

// The first rank whose tier holds most.
int FullestRank(const MemoryOfJob& memory, Tier tier) {
  int fullest = 0;
  const auto held = [&](int stage) {
    return memory.stages[static_cast<size_t>(stage)].tier(tier).total();
  };
  for (int stage = 1; stage < static_cast<int>(memory.stages.size()); ++stage) {
    if (held(stage) > held(fullest)) fullest = stage;
  }
  int rank = 0;
  while (memory.mesh.stage(rank) != fullest) ++rank;
  return rank;
}

// The card, which may be one memory with the host, and what is known of a host for it where the job
// says nothing.
void LookAtCard(const FitRequest& request, const MemoryOfJob& memory, Tightest& tightest) {
  const FitDevice& device = request.device;
  const int rank = FullestRank(memory, memory.compute_tier);
  const TierBytes& compute = memory.of_rank(rank).tier(memory.compute_tier);
  const int away = FullestRank(memory, Tier::kHost);
  const TierBytes& host = memory.of_rank(away).tier(Tier::kHost);
  const std::string place = absl::StrCat("the device of rank ", rank);
  if (device.host_is_device) {
    tightest.Look({true, absl::StrCat(place, ", one memory with its host's,"), "",
                   compute.total() + host.arena_bytes, device.bytes, MostOf(compute)});
    return;
  }
  tightest.Look({true, place, "", compute.total(), device.bytes, MostOf(compute)});
  if (device.host_bytes > 0 && !request.job.memory().has_host()) {
    tightest.Look({true, absl::StrCat("the host memory of rank ", away), "", host.arena_bytes,
                   device.host_bytes, MostOf(host)});
  }
}

}  // namespace

std::string Verdict::ToText() const {
  if (limit == 0) return "no limit is known";
  const auto bytes = [](int64_t count) { return common::FormatBytes(static_cast<double>(count)); };
  return absl::StrCat(place, fits ? " holds " : " would hold ", bytes(needed), " of ", bytes(limit),
                      ", ", bytes(fits ? limit - needed : needed - limit),
                      fits ? " to spare" : " too much", "; most of it ", Name(most),
                      key.empty() ? "" : absl::StrCat(" (", key, ")"));
}

Verdict Judge(const FitRequest& request, const MemoryOfJob& memory) {
  const v1::MemorySpec& limits = request.job.memory();
  Tightest tightest;
  const int rank = FullestRank(memory, memory.compute_tier);
  const TierBytes& compute = memory.of_rank(rank).tier(memory.compute_tier);
  const std::string device = absl::StrCat("the device of rank ", rank);
  if (!request.device.is_cpu) LookAtCard(request, memory, tightest);
  if (limits.has_device() && request.device_limit_given) {
    tightest.Look(
        {true, device, "memory.device", compute.arena_bytes, limits.device(), MostOf(compute)});
  }
  if (limits.has_host()) {
    const int fullest = FullestRank(memory, Tier::kHost);
    const TierBytes& host = memory.of_rank(fullest).tier(Tier::kHost);
    tightest.Look({true, absl::StrCat("the host memory of rank ", fullest), "memory.host",
                   host.arena_bytes, limits.host(), MostOf(host)});
  }
  const int ranks = memory.mesh.ranks();
  const int on_node = request.device.is_cpu ? ranks : std::min(ranks, kDevicesPerNode);
  int64_t ssd = 0;
  for (const v1::SsdPath& path : limits.ssd()) {  // equal parts of whole blocks
    ssd += path.size() / on_node / kSsdBlock * kSsdBlock * on_node;
  }
  const TierBytes& disk = memory.of_rank(FullestRank(memory, Tier::kSsd)).tier(Tier::kSsd);
  tightest.Look({true, "the SSD of a node", "memory.ssd", Times(disk.arena_bytes, on_node), ssd,
                 MostOf(disk)});
  if (request.device.is_cpu) {
    int64_t sum = 0;
    for (const StageMemory& stage : memory.stages) {
      sum += stage.tier(Tier::kDevice).total() + stage.tier(Tier::kHost).total();
    }
    sum = Times(sum, ranks / static_cast<int>(memory.stages.size()));
    tightest.Look(
        {true,
         ranks == 1 ? "this machine" : absl::StrCat("this machine, with all ", ranks, " ranks,"),
         "", sum, request.machine_bytes, MostOf(compute)});
  }
  return tightest.verdict();
}

void CompleteRequest(FitRequest& request) {
  if (request.device.is_cpu) return;
  // The program of a card has other workspaces and chunks than that of the CPU.
  if (!OnAccelerator(request.job)) request.job.mutable_resources()->set_device("gpu");
  if (request.job.memory().has_device()) return;
  constexpr int kCommunicators = 4;  // of as many axes as a layout usually has
  const bool alone = request.job.resources().ranks() <= 1;
  int64_t usable = request.device.bytes - 2 * common::kMiB;
  const OverheadFacts facts{.communicators = alone ? 0 : kCommunicators,
                            .library_attends = LibraryMayAttend(request)};
  for (const OverheadItem& item : OverheadOf(request.device, facts)) usable -= item.bytes;
  v1::MemorySpec& memory = *request.job.mutable_memory();
  memory.set_device(std::max<int64_t>(usable, common::kMiB));
  request.device_limit_given = false;
  if (!memory.has_stream()) memory.mutable_stream()->set_automatic(true);
}

absl::StatusOr<Fit> ReadFit(const FitRequest& request) {
  ASSIGN_OR_RETURN(MemoryOfJob memory, ReadMemoryOfJob(request));
  const Verdict verdict = Judge(request, memory);
  return Fit{std::move(memory), verdict};
}

}  // namespace strata::planner
