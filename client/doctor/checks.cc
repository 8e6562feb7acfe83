#include "client/doctor/checks.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/units.h"

namespace strata::client {
namespace {

using common::FormatBytes;
using common::kGiB;
using common::kMiB;

std::string Size(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

Finding JudgeCpu(const MachineFacts& facts) {
  Finding finding{"cpu", Health::kOk, "", ""};
  std::vector<std::string> sets;
  for (const char* name : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"}) {
    if (absl::StrContains(facts.cpu_flags, absl::StrCat(" ", name, " "))) sets.emplace_back(name);
  }
  finding.value = absl::StrCat(facts.cpu_model.empty() ? "unknown" : facts.cpu_model, ", ",
                               facts.cores, facts.cores == 1 ? " core, " : " cores, ",
                               sets.empty() ? "no AVX2" : absl::StrJoin(sets, " "));
  const auto has = [&](const char* name) {
    return std::find(sets.begin(), sets.end(), name) != sets.end();
  };
  if (!has("avx2") || !has("fma")) {
    finding.health = Health::kWarning;
    finding.advice = "kernels are several times slower without AVX2 and FMA: use another machine";
  }
  return finding;
}

Finding JudgeMemory(const MachineFacts& facts) {
  Finding finding{"memory", Health::kOk, "", ""};
  if (facts.memory < 0) return {"memory", Health::kWarning, "unknown", "is /proc mounted?"};
  finding.value = absl::StrCat(Size(facts.memory), ", ",
                               Size(std::max<int64_t>(0, facts.memory_available)), " available");
  if (facts.memory_available < 2 * kGiB) {
    finding.health = Health::kWarning;
    finding.advice = "end other programs: little memory is left for training";
  }
  return finding;
}

Finding JudgeHugePages(const MachineFacts& facts) {
  Finding finding{"huge pages", Health::kOk, "", ""};
  const std::string& mode = facts.transparent_huge_pages;
  finding.value = absl::StrCat("transparent: ", mode.empty() ? "unknown" : mode,
                               "; reserved: ", facts.huge_page_count);
  if (absl::StrContains(mode, "[never]") && facts.huge_page_count == 0) {
    finding.health = Health::kWarning;
    finding.advice =
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: arenas get faster";
  }
  return finding;
}

Finding JudgeLockedMemory(const MachineFacts& facts) {
  if (!facts.locked_memory_limit.has_value())
    return {"locked memory", Health::kOk, "unlimited", ""};
  Finding finding{"locked memory", Health::kOk, Size(*facts.locked_memory_limit), ""};
  if (*facts.locked_memory_limit < 64 * kMiB) {
    finding.health = Health::kWarning;
    finding.advice =
        "ulimit -l unlimited (or memlock in limits.conf): RDMA and pinned buffers need it";
  }
  return finding;
}

Finding JudgeOpenFiles(const MachineFacts& facts) {
  Finding finding{"open files", Health::kOk, absl::StrCat(facts.open_files_limit), ""};
  if (facts.open_files_limit >= 0 && facts.open_files_limit < 1024) {
    finding.health = Health::kWarning;
    finding.advice = "ulimit -n 65536: every peer of a rank needs a few";
  }
  return finding;
}

Finding JudgeSharedMemory(const MachineFacts& facts) {
  if (facts.shared_memory < 0) {
    return {"shared memory", Health::kFailure, "no /dev/shm",
            "mount -t tmpfs tmpfs /dev/shm: ranks on one machine speak through it"};
  }
  Finding finding{"shared memory", Health::kOk,
                  absl::StrCat("/dev/shm: ", Size(facts.shared_memory)), ""};
  if (facts.shared_memory < 256 * kMiB) {
    finding.health = Health::kWarning;
    finding.advice = "enlarge it (docker run --shm-size 1g): ranks on one machine speak through it";
  }
  return finding;
}

Finding JudgeIoUring(const MachineFacts& facts) {
  if (facts.io_uring_error == 0) return {"io_uring", Health::kOk, "available", ""};
  return {
      "io_uring", Health::kWarning,
      absl::StrCat("not available (", std::strerror(facts.io_uring_error), ")"),
      "threads are used instead; container runtimes forbid it unless a seccomp profile allows it"};
}

Finding JudgeDisk(const MachineFacts& facts) {
  Finding finding{"disk", Health::kOk, "unknown", ""};
  if (facts.disk_free < 0) {
    finding.health = Health::kWarning;
    finding.advice = "can the working directory be read?";
    return finding;
  }
  finding.value = absl::StrCat(Size(facts.disk_free), " free in ", facts.disk_folder);
  if (facts.disk_free < kGiB) finding.health = Health::kFailure;
  if (facts.disk_free >= kGiB && facts.disk_free < 10 * kGiB) finding.health = Health::kWarning;
  if (finding.health != Health::kOk) {
    finding.advice = "make room: a checkpoint takes 12 bytes per parameter";
  }
  return finding;
}

Finding JudgeBinaries(const MachineFacts& facts) {
  if (facts.missing_binaries.empty()) {
    return {"binaries", Health::kOk, absl::StrCat("all in ", facts.binary_folder), ""};
  }
  return {"binaries", Health::kFailure,
          absl::StrCat("missing in ", facts.binary_folder, ": ",
                       absl::StrJoin(facts.missing_binaries, ", ")),
          "./dev build links all four into one folder"};
}

}  // namespace

const char* NameOf(Health health) {
  switch (health) {
    case Health::kOk:
      return "ok";
    case Health::kWarning:
      return "warn";
    case Health::kFailure:
      return "fail";
  }
  return "";
}

std::vector<Finding> Judge(const MachineFacts& facts) {
  return {JudgeCpu(facts),          JudgeMemory(facts),    JudgeHugePages(facts),
          JudgeLockedMemory(facts), JudgeOpenFiles(facts), JudgeSharedMemory(facts),
          JudgeIoUring(facts),      JudgeDisk(facts),      JudgeBinaries(facts)};
}

}  // namespace strata::client
