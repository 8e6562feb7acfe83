#include "planner/fit/devices.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "planner/fit/library_attention.h"

namespace strata::planner {
namespace {

using common::kMiB;

struct Kind {
  const char* name;
  int64_t mebibytes;
  bool library_attention = false;
};

// As nvidia-smi tells the total, with ECC where it is usual; NVIDIA's data sheets round these.
constexpr Kind kKinds[] = {{"h100", 81559, true},  {"h100-80", 81559, true}, {"h200", 143771, true},
                           {"gh200", 97871, true}, {"b200", 183359},         {"a100-80", 81920},
                           {"a100-40", 40960},     {"a100", 81920},          {"v100", 32768},
                           {"v100-32", 32768},     {"v100-16", 16384},       {"l40s", 46068},
                           {"l4", 23034},          {"a10", 23028},           {"t4", 15360},
                           {"rtx4090", 24564},     {"rtx3090", 24576},       {"rtx5090", 32607}};

// A process on one of eight H100s with one communicator was reported to take 1.06 GB beside its
// tensors (NVIDIA/nccl, "All-to-all seems to trigger connection of many channels", 2025): a context
// of half of it, which is also the upper end of what estimators tell (0.3 to 0.5 GB), and a ring.
constexpr int64_t kContextBytes = 500'000'000;
// In NCCL's log there: 10,485,760 B of each channel and neighbour; rings have two neighbours, and
// 24 channels on NVLink. All-to-all has as many as peers, which needs more.
constexpr int64_t kCommunicatorBytes = int64_t{24} * 2 * 10'485'760;
// NVIDIA's cuBLAS manual, "cublasSetWorkspace": 32 MiB on Hopper, 4 MiB on others.
constexpr int64_t kCublasBytes = 32 * kMiB;
constexpr int64_t kGranularity = 2 * kMiB;  // of cuMemCreate

}  // namespace

absl::StatusOr<FitDevice> DeviceOf(absl::string_view text, int64_t sized_bytes) {
  const std::string name = absl::AsciiStrToLower(text);
  if (name == "cpu") return FitDevice{};
  std::string known = "cpu";
  for (const Kind& kind : kKinds) {
    if (name == kind.name) {
      return FitDevice{name, kind.mebibytes * kMiB, false, kind.library_attention};
    }
    absl::StrAppend(&known, ", ", kind.name);
  }
  if (sized_bytes > 0) return FitDevice{std::string(text), sized_bytes, false};
  return absl::NotFoundError(
      absl::StrCat("is no kind of device — give a size such as 24GB, or one of ", known));
}

std::vector<OverheadItem> OverheadOf(const FitDevice& device, const OverheadFacts& facts) {
  if (device.is_cpu) return {};
  std::vector<OverheadItem> items = {
      {"CUDA context", kContextBytes, "reports of H100s and estimators; not measured here"},
      {"cuBLAS workspace", kCublasBytes, "cuBLAS manual, cublasSetWorkspace: Hopper"}};
  if (device.library_attention && facts.library_attends) {
    items.push_back({"cuDNN's workspace", kLibraryAttentionBytes,
                     "its bound; taken where attention is cuDNN's (docs/gpu.md)"});
  }
  const int communicators = facts.communicators;
  if (communicators > 0) {
    items.push_back({absl::StrCat("NCCL buffers of ", communicators,
                                  communicators == 1 ? " communicator:" : " communicators:"),
                     communicators * kCommunicatorBytes,
                     "24 channels × 2 × 10 MiB, from NCCL's log on H100; not measured here"});
  }
  items.push_back({"whole pages of the device",
                   common::RoundUp(facts.arena_bytes, kGranularity) - facts.arena_bytes,
                   "cuMemCreate: 2 MiB"});
  return items;
}

}  // namespace strata::planner
