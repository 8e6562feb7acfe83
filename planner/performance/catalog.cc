#include "planner/performance/catalog.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "planner/profiles/shipped_profiles.h"

namespace strata::planner {
namespace {

constexpr char kGenericSoftware[] = "generic";
constexpr char kScaledFrom[] = "H100";  // stands in for GPUs that are not known

// One device's share of a host: two sockets' sixteen channels of DDR5-4800 reach some 450 GB/s, for
// eight devices.
constexpr double kUsualHostMemoryRate = 50e9;

Network ToNetwork(const v1::NetworkProfile& profile) {
  Network network;
  network.node_devices = profile.node_devices();
  network.domain_devices = profile.domain_devices();
  network.domain_rate = profile.domain_rate();
  network.domain_efficiency = profile.domain_efficiency();
  network.network_rate = profile.network_rate();
  network.network_efficiency = profile.network_efficiency();
  network.host_rate = profile.host_rate();
  // By PCIe the driver moves pages at half of what copies reach (bitsandbytes, explanations of
  // paged optimizers).
  network.page_rate = profile.page_rate() > 0 ? profile.page_rate() : profile.host_rate() / 2;
  network.coherent = profile.page_rate() > 0;
  network.host_memory_bytes = profile.host_memory_bytes();
  network.host_memory_rate =
      profile.host_memory_rate() > 0 ? profile.host_memory_rate() : kUsualHostMemoryRate;
  network.host_is_device = profile.host_is_device();
  network.disk_rate = profile.disk_rate();
  return network;
}

Gpu ToGpu(const v1::GpuProfile& profile) {
  Gpu gpu;
  gpu.name = profile.name();
  gpu.generation = profile.generation();
  gpu.processors = profile.processors();
  gpu.memory_bytes = profile.memory_bytes();
  gpu.memory_rate = profile.memory_rate();
  for (const v1::PeakRate& peak : profile.peaks()) {
    for (int i = 0; i < kPrecisions; ++i) {
      if (peak.precision() == NameOf(static_cast<Precision>(i))) gpu.peak[i] = peak.flops();
    }
  }
  gpu.tile_seconds = profile.tile_seconds();
  gpu.kernel_seconds = profile.kernel_seconds();
  gpu.price_per_hour = profile.price_per_device_hour();
  return gpu;
}

Software ToSoftware(const v1::SoftwareProfile& profile) {
  Software software;
  if (profile.unfused_attention()) software.attention = Software::Attention::kUnfused;
  if (profile.attention_share() > 0) software.attention_share = profile.attention_share();
  if (profile.attention_generation() > 0) {
    software.attention_generation = profile.attention_generation();
  }
  software.tensor_exposed = profile.tensor_exposed();
  software.pipeline_overlap = profile.pipeline_overlap();
  software.pipeline_latency = profile.pipeline_latency();
  software.pipeline_moves_each = profile.pipeline_moves_each();
  software.zero2_gathers_each = !profile.shards_as_strata();
  software.context_shares = !profile.shards_as_strata();
  software.saves_by_value = profile.shards_as_strata();
  software.data_overlap = profile.data_overlap();
  software.graphs = profile.graphs();
  software.gradient_bytes = profile.gradient_bytes();
  software.gathered_bytes = profile.gathered_bytes();
  software.launch_seconds = profile.launch_seconds();
  if (profile.logit_bytes() > 0) software.logit_bytes = profile.logit_bytes();
  if (profile.loss_traffic() > 0) software.loss_traffic = profile.loss_traffic();
  if (profile.collectives_per_layer() > 0) {
    software.collectives_per_layer = profile.collectives_per_layer();
  }
  software.narrow_gathers = profile.narrow_gathers();
  software.operator_recompute = profile.operator_recompute();
  return software;
}

absl::Status CheckGpu(const v1::GpuProfile& gpu) {
  const v1::NetworkProfile& network = gpu.network();
  const double figures[] = {static_cast<double>(gpu.processors()),
                            static_cast<double>(gpu.generation()),
                            gpu.memory_bytes(),
                            gpu.memory_rate(),
                            static_cast<double>(network.node_devices()),
                            static_cast<double>(network.domain_devices()),
                            network.domain_rate(),
                            network.domain_efficiency(),
                            network.network_rate(),
                            network.network_efficiency(),
                            gpu.tile_seconds(),
                            gpu.kernel_seconds()};
  if (std::any_of(std::begin(figures), std::end(figures), [](double x) { return !(x > 0); })) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpu ", gpu.name(), ": a figure is missing or not positive"));
  }
  return absl::OkStatus();
}

bool IsNamed(const v1::GpuProfile& gpu, absl::string_view name) {
  return absl::EqualsIgnoreCase(gpu.name(), name) ||
         std::any_of(gpu.aliases().begin(), gpu.aliases().end(),
                     [&](const std::string& alias) { return absl::EqualsIgnoreCase(alias, name); });
}

// Whether the product is sold in several sizes of memory, of which this is one: A100-40GB of a100.
bool IsOneOf(const v1::GpuProfile& gpu, absl::string_view product) {
  return absl::StartsWithIgnoreCase(gpu.name(), absl::StrCat(product, "-"));
}

// Whose calibrations answer for a precision, the nearest first.
std::vector<Precision> StandIns(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return {Precision::kFp32, Precision::kHalf};
    case Precision::kHalf:
      return {Precision::kHalf};
    case Precision::kFp8:
      return {Precision::kFp8, Precision::kMxfp8};
    case Precision::kMxfp8:
      return {Precision::kMxfp8, Precision::kFp8};
    case Precision::kNvfp4:
      return {Precision::kNvfp4, Precision::kMxfp8, Precision::kFp8};
  }
  return {};
}

// Numbers inside names count as numbers: v25.04 comes before v25.10, 26.02 before 26.02.01.
bool NaturallyBefore(absl::string_view a, absl::string_view b) {
  size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (absl::ascii_isdigit(a[i]) && absl::ascii_isdigit(b[j])) {
      int64_t x = 0, y = 0;
      while (i < a.size() && absl::ascii_isdigit(a[i])) x = (x * 10 + a[i++] - '0') % 1000000007;
      while (j < b.size() && absl::ascii_isdigit(b[j])) y = (y * 10 + b[j++] - '0') % 1000000007;
      if (x != y) return x < y;
    } else {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

}  // namespace

Calibration ToCalibration(const v1::CalibrationProfile& record) {
  return {record.product(),       record.attention(),        record.memory(),
          record.communication(), record.overhead_seconds(), record.straggler()};
}

absl::StatusOr<Catalog> Catalog::From(v1::HardwareCatalog profiles) {
  std::set<std::string> names, calibrated;
  for (const v1::GpuProfile& gpu : profiles.gpus()) {
    RETURN_IF_ERROR(CheckGpu(gpu));
    std::vector<std::string> all(gpu.aliases().begin(), gpu.aliases().end());
    all.push_back(gpu.name());
    for (const std::string& name : all) {
      if (!names.insert(absl::AsciiStrToLower(name)).second) {
        return absl::InvalidArgumentError(absl::StrCat("gpu ", name, " is there twice"));
      }
    }
  }
  for (const v1::CalibrationProfile& record : profiles.calibrations()) {
    const std::string key =
        absl::StrCat(record.gpu(), " ", record.precision(), " ", record.release());
    if (!calibrated.insert(key).second) {
      return absl::InvalidArgumentError(absl::StrCat("calibration ", key, " is there twice"));
    }
    if (!(record.product() > 0 && record.attention() > 0 && record.memory() > 0 &&
          record.communication() > 0 && record.overhead_seconds() >= 0 &&
          record.straggler() >= 0)) {
      return absl::InvalidArgumentError(absl::StrCat("calibration ", key, ": not positive"));
    }
  }
  const auto& software = profiles.software();
  if (std::none_of(software.begin(), software.end(), [](const v1::SoftwareProfile& profile) {
        return profile.name() == kGenericSoftware;
      })) {
    return absl::InvalidArgumentError("software generic is missing");
  }
  Catalog catalog;
  catalog.profiles_ = std::move(profiles);
  return catalog;
}

const Catalog& Catalog::Shipped() {
  static const auto& catalog = *[] {
    v1::HardwareCatalog profiles;
    STRATA_CHECK(google::protobuf::TextFormat::ParseFromString(kShippedProfiles, &profiles));
    absl::StatusOr<Catalog> read = From(std::move(profiles));
    STRATA_CHECK(read.ok());
    return new Catalog(*std::move(read));
  }();
  return catalog;
}

const v1::GpuProfile* Catalog::GpuNamed(absl::string_view name,
                                        std::optional<double> memory_bytes) const {
  const v1::GpuProfile* best = nullptr;
  for (const v1::GpuProfile& gpu : profiles_.gpus()) {
    if (IsNamed(gpu, name)) best = &gpu;
  }
  if (!memory_bytes.has_value()) return best;
  const auto distance = [&](const v1::GpuProfile& gpu) {
    return std::abs(gpu.memory_bytes() - *memory_bytes);
  };
  for (const v1::GpuProfile& gpu : profiles_.gpus()) {
    if (!IsOneOf(gpu, name)) continue;
    if (best == nullptr || distance(gpu) < distance(*best)) best = &gpu;
  }
  return best;
}

std::string Catalog::KnownNames() const {
  std::vector<std::string> known;
  for (const v1::GpuProfile& gpu : profiles_.gpus()) known.push_back(gpu.name());
  return absl::StrJoin(known, ", ");
}

bool Catalog::MayBe(absl::string_view kind, absl::string_view name) const {
  const v1::GpuProfile* const gpu = GpuNamed(name, std::nullopt);
  return gpu != nullptr && (IsNamed(*gpu, kind) || IsOneOf(*gpu, kind));
}

// The longest beginning of the release, else the framework's own name, else its longest word.
const v1::SoftwareProfile& Catalog::SoftwareOf(absl::string_view release,
                                               absl::string_view framework) const {
  const v1::SoftwareProfile* best = nullptr;
  size_t length = 0;
  for (const v1::SoftwareProfile& profile : profiles_.software()) {
    for (const std::string& begin : profile.releases()) {
      if (begin.size() > length && absl::StartsWithIgnoreCase(release, begin)) {
        best = &profile, length = begin.size();
      }
    }
  }
  if (best != nullptr) return *best;
  const std::string lower = absl::AsciiStrToLower(framework);
  for (const v1::SoftwareProfile& profile : profiles_.software()) {
    if (profile.name() == lower) return profile;
    for (const std::string& word : profile.frameworks()) {
      if (word.size() > length && absl::StrContains(lower, word)) {
        best = &profile, length = word.size();
      }
    }
  }
  if (best != nullptr) return *best;
  for (const v1::SoftwareProfile& profile : profiles_.software()) {
    if (profile.name() == kGenericSoftware) best = &profile;
  }
  return *best;
}

// Of a family's calibrations the release's own, else the latest before it, else the earliest.
const v1::CalibrationProfile* Catalog::Nearest(absl::string_view gpu, absl::string_view precision,
                                               absl::string_view family,
                                               absl::string_view release) const {
  const v1::CalibrationProfile *before = nullptr, *after = nullptr;
  for (const v1::CalibrationProfile& record : profiles_.calibrations()) {
    if (record.gpu() != gpu || record.precision() != precision || record.release().empty())
      continue;
    if (record.release() == release) return &record;
    if (record.family() != family) continue;
    if (NaturallyBefore(record.release(), release)) {
      if (before == nullptr || NaturallyBefore(before->release(), record.release())) {
        before = &record;
      }
    } else if (after == nullptr || NaturallyBefore(record.release(), after->release())) {
      after = &record;
    }
  }
  return before != nullptr ? before : after;
}

const v1::CalibrationProfile* Catalog::CalibrationOf(const v1::GpuProfile& gpu,
                                                     absl::string_view precision,
                                                     const v1::SoftwareProfile& software,
                                                     absl::string_view release) const {
  std::vector<std::string> families = {software.name()};
  families.insert(families.end(), software.like().begin(), software.like().end());
  for (const std::string& family : families) {
    if (const auto* record = Nearest(gpu.name(), precision, family, release)) return record;
  }
  std::vector<std::string> gpus = {gpu.name()};
  gpus.insert(gpus.end(), gpu.like().begin(), gpu.like().end());
  for (const std::string& name : gpus) {
    for (const v1::CalibrationProfile& record : profiles_.calibrations()) {
      if (record.gpu() == name && record.precision() == precision && record.release().empty()) {
        return &record;
      }
    }
  }
  return nullptr;
}

absl::StatusOr<FoundMachine> Catalog::Find(const MachineRequest& request) const {
  const v1::GpuProfile* profile = GpuNamed(request.gpu, request.memory_bytes);
  const bool scaled = profile == nullptr;
  if (scaled) profile = GpuNamed(kScaledFrom, std::nullopt);
  if (profile == nullptr || (scaled && !request.half_peak.has_value())) {
    return absl::NotFoundError(
        absl::StrCat("no profile of a GPU named ", request.gpu, " — name one of ", KnownNames()));
  }
  FoundMachine found;
  Machine& machine = found.machine;
  machine.gpu = ToGpu(*profile);
  machine.network = ToNetwork(profile->network());
  if (scaled) {
    const double factor = *request.half_peak / machine.gpu.peak[static_cast<int>(Precision::kHalf)];
    for (double& peak : machine.gpu.peak) peak *= factor;
    machine.gpu.memory_rate *= factor;
    machine.gpu.name = absl::StrCat(request.gpu, " as scaled ", kScaledFrom);
    machine.gpu.memory_bytes = request.memory_bytes.value_or(machine.gpu.memory_bytes);
  }
  if (!(machine.gpu.peak[static_cast<int>(request.precision)] > 0)) {
    return absl::FailedPreconditionError(
        absl::StrCat(machine.gpu.name, " has no ", NameOf(request.precision), " products"));
  }
  machine.network.node_devices = request.node_devices.value_or(machine.network.node_devices);
  machine.network.domain_devices = request.domain_devices.value_or(machine.network.domain_devices);
  machine.network.network_rate = request.network_rate.value_or(machine.network.network_rate);

  const v1::SoftwareProfile& software = SoftwareOf(request.release, request.framework);
  machine.software = ToSoftware(software);
  found.software = software.name();
  found.calibration = "default";
  const v1::CalibrationProfile* record = nullptr;
  for (const Precision precision : StandIns(request.precision)) {
    if (record == nullptr) {
      record = CalibrationOf(*profile, NameOf(precision), software, request.release);
    }
  }
  if (record != nullptr) {
    machine.calibration = ToCalibration(*record);
    found.calibration =
        absl::StrCat(record->gpu(), " ", record->precision(), " ",
                     record->release().empty() ? std::string("any release") : record->release());
  }
  return found;
}

}  // namespace strata::planner
