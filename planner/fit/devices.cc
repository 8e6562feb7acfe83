#include "planner/fit/devices.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "planner/fit/library_attention.h"
#include "planner/performance/catalog.h"

namespace strata::planner {
namespace {

using common::kMiB;

// Hopper: see worker/trainer/attention_choice.cc.
constexpr int64_t kLibraryGeneration = 9;

FitDevice DeviceFrom(const v1::GpuProfile& gpu, std::string name) {
  const auto whole = [](double bytes) { return static_cast<int64_t>(bytes); };
  const v1::NetworkProfile& network = gpu.network();
  return {.name = std::move(name),
          .bytes = gpu.reported_mebibytes() > 0 ? gpu.reported_mebibytes() * kMiB
                                                : whole(gpu.memory_bytes()),
          .is_cpu = false,
          .library_attention = gpu.generation() == kLibraryGeneration,
          .host_is_device = network.host_is_device(),
          .coherent = network.page_rate() > 0,
          .host_bytes = whole(network.host_memory_bytes())};
}

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
  const Catalog& catalog = Catalog::Shipped();
  if (const v1::GpuProfile* gpu = catalog.GpuNamed(name)) return DeviceFrom(*gpu, name);
  if (sized_bytes > 0)
    return FitDevice{.name = std::string(text), .bytes = sized_bytes, .is_cpu = false};
  return absl::NotFoundError(
      absl::StrCat("is no kind of device — give a size such as 24GB, or one of cpu, ",
                   absl::AsciiStrToLower(catalog.KnownNames())));
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
