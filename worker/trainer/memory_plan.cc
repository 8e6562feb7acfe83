#include "worker/trainer/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "planner/cost/disk_choice.h"

namespace strata::worker {
namespace {

using program::Tier;

const v1::MemorySpec& MemoryOf(const v1::TrainerTask& task) {
  const bool trains = task.kind() == v1::TrainerTask::KIND_TRAIN;
  return trains ? task.job().memory() : task.request().memory();
}

int64_t RanksOnNode(const v1::TrainerTask& task) {
  return std::max<int64_t>(1, task.ranks_on_node());
}

// A rank's part of a path, whole blocks.
int64_t PartOf(const v1::SsdPath& path, int64_t ranks) {
  return path.size() / ranks / memory::kSsdBlockBytes * memory::kSsdBlockBytes;
}

absl::Status Exceeds(const std::string& field, int64_t limit, int64_t needed, const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat(field, ": ", limit, " B are too few for ", what,
                                                   " — give at least ", needed, " B (",
                                                   common::FormatBytes(static_cast<double>(needed)),
                                                   "), or let less live there (memory.place)"));
}

}  // namespace

bool HasTiers(const v1::TrainerTask& task) {
  return task.kind() == v1::TrainerTask::KIND_TRAIN ? task.job().has_memory()
                                                    : task.request().has_memory();
}

absl::Status CheckLimits(const v1::TrainerTask& task,
                         const std::vector<const program::ProgramSet*>& stages) {
  const v1::MemorySpec& memory = MemoryOf(task);
  const auto needed = [&](Tier tier) {
    int64_t most = 0;
    for (const program::ProgramSet* stage : stages) {
      most = std::max(most, stage->arena(tier));
    }
    return most;
  };
  const int64_t device = needed(Tier::kDevice), host = needed(Tier::kHost);
  if (memory.has_device() && device > memory.device()) {
    return Exceeds("memory.device", memory.device(), device, "a rank's device");
  }
  if (memory.has_host() && host > memory.host()) {
    return Exceeds("memory.host", memory.host(), host, "what a rank keeps in host memory");
  }
  const int64_t ranks = RanksOnNode(task), ssd = needed(Tier::kSsd);
  int64_t limit = 0, part = 0;
  for (const v1::SsdPath& path : memory.ssd()) {
    limit += path.size();
    part += PartOf(path, ranks);
  }
  if (ssd <= part) return absl::OkStatus();
  return Exceeds(memory.ssd_size() == 1 ? "memory.ssd[0].size" : "memory.ssd", limit, ssd * ranks,
                 "what the ranks of a node keep on SSD");
}

absl::StatusOr<memory::SsdOptions> OpenPaths(const v1::TrainerTask& task) {
  memory::SsdOptions options;
  std::vector<std::string> directories;
  for (const v1::SsdPath& path : MemoryOf(task).ssd()) {
    std::error_code error;
    std::filesystem::create_directories(path.path(), error);
    if (error) {
      return absl::FailedPreconditionError(
          absl::StrCat(path.path(), ": cannot be created (", error.message(),
                       ") — choose another directory for memory.ssd"));
    }
    options.paths.push_back(
        {.directory = path.path(), .limit_bytes = PartOf(path, RanksOnNode(task))});
    directories.push_back(path.path());
  }
  if (directories.empty()) return options;
  const auto measured = planner::ChooseDiskRate(task.profile(), directories, RanksOnNode(task));
  if (measured.ok()) {
    options.request_bytes = measured->request_bytes();
    options.queue_depth = static_cast<int>(measured->depth());
  }
  return options;
}

}  // namespace strata::worker
