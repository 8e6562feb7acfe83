#include "spec/validate_memory.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spec/scalars.h"

namespace strata::spec {
namespace {

using strata::v1::JobSpec;
using strata::v1::MemorySpec;
using strata::v1::ParallelSpec;
using strata::v1::TierShares;

class MemoryValidator {
 public:
  MemoryValidator(const JobSpec& job, const PositionMap& positions, Problems& problems)
      : job_(job), memory_(job.memory()), positions_(positions), problems_(problems) {}

  void Paths() {
    for (int i = 0; i < memory_.ssd_size(); ++i) {
      const std::string at = absl::StrCat("memory.ssd[", i, "]");
      if (!memory_.ssd(i).has_path()) Report(at, "path is missing", "name a directory");
      if (!memory_.ssd(i).has_size() && !problems_.Concerns(at + ".size")) {
        Report(at, "size is missing", "say how many bytes it may take, such as 100GiB");
      }
      for (int j = 0; j < i; ++j) {
        if (!memory_.ssd(i).has_path() || memory_.ssd(j).path() != memory_.ssd(i).path()) continue;
        Report(at + ".path", absl::StrCat("is that of memory.ssd[", j, "]"),
               "name each directory once");
      }
    }
  }

  void Places() {
    for (const auto& [name, shares] : Classes()) {
      const std::string at = absl::StrCat("memory.place.", name);
      if (problems_.Concerns(at)) continue;
      const double sum = shares->device() + shares->host() + shares->ssd() + shares->unified();
      if (std::abs(sum - 1) > 1e-9) {
        Report(at, absl::StrCat("fractions sum to ", ShortestNumber(sum), ", not to 1"),
               "all bytes of the class have a place, such as {device: 0.4, host: 0.6}");
      }
      if (shares->ssd() > 0 && memory_.ssd().empty() && !problems_.Concerns("memory.ssd")) {
        Report(at, "has bytes on ssd, and memory.ssd names no directory",
               "give memory.ssd: [{path: DIR, size: 100GiB}], or another tier");
      }
      if (shares->unified() > 0) Unified(name, at);
    }
  }

  // What is in unified memory is kept in one version, whole on the rank, and only where kernels
  // compute on a device.
  void Unified(const std::string& name, const std::string& at) {
    const std::string& device = job_.resources().device();
    if (device.empty() || device == "cpu") {
      Report(at, "unified memory is a GPU's, and the job computes on the CPU",
             "use host, or resources.device: gpu");
    } else if (name == "gradients" || name == "activations") {
      Report(at, absl::StrCat(name, " have no place in unified memory"),
             "use host: what is written once and read once is copied as fast as pages move");
    } else if (job_.parallel().update_policy() == ParallelSpec::UPDATE_POLICY_SPECULATIVE) {
      Report(at, "speculative updates keep two versions of state, unified memory one",
             "use parallel.update_policy: deferred, or host");
    } else if (const TierShares& state = memory_.place().optimizer();
               name == "parameters" && state.host() + state.ssd() > 0) {
      Report(at,
             "the device updates parameters in unified memory, and some state is on host or ssd",
             "use memory.place.optimizer: unified, or parameters: host");
    } else if (name == "parameters" && job_.parallel().shard() > ParallelSpec::SHARD_NONE) {
      Report(at, "parameters in unified memory are whole on every rank",
             "use parallel.shard: none, or host");
    }
  }

  void Stream() {
    const auto& stream = memory_.stream();
    if (stream.automatic() || problems_.Concerns("memory.stream")) return;
    if (!stream.has_resident()) {
      if (stream.has_moved()) {
        Report("memory.stream", "resident is missing", "say how many layers stay on the device");
      }
      return;
    }
    if (stream.moved() <= stream.resident()) return;
    Report("memory.stream.moved",
           absl::StrCat(stream.moved(), " layers are moved at once, of ", stream.resident(),
                        " that are resident"),
           absl::StrCat("use at most ", stream.resident()));
  }

  // What waits, and where.
  void Policy() {
    const ParallelSpec& parallel = job_.parallel();
    if (problems_.Concerns("parallel.update_policy") || problems_.Concerns("memory")) return;
    const TierShares& gradients = memory_.place().gradients();
    const bool elsewhere = gradients.host() + gradients.ssd() > 0;
    const bool spooled = parallel.update_policy() == ParallelSpec::UPDATE_POLICY_SPOOLED;
    if (spooled && !elsewhere) {
      Report("parallel.update_policy", "spooled gradients wait on host or ssd, and none do",
             "give memory.place.gradients: host or ssd, or use update_policy: deferred");
    }
    if (parallel.spool() == ParallelSpec::SPOOL_BF16 && !spooled) {
      Report("parallel.spool", "nothing is spooled (update_policy is not spooled)",
             "use update_policy: spooled, or remove it");
    }
  }

 private:
  std::array<std::pair<const char*, const TierShares*>, 4> Classes() const {
    const auto& place = memory_.place();
    return {{{"parameters", &place.parameters()},
             {"gradients", &place.gradients()},
             {"optimizer", &place.optimizer()},
             {"activations", &place.activations()}}};
  }
  void Report(const std::string& path, std::string what, std::string remedy) {
    problems_.Add({positions_.Of(path), path, std::move(what), std::move(remedy)});
  }

  const JobSpec& job_;
  const MemorySpec& memory_;
  const PositionMap& positions_;
  Problems& problems_;
};

}  // namespace

void ValidateMemory(const JobSpec& job, const PositionMap& positions, Problems& problems) {
  MemoryValidator validator(job, positions, problems);
  if (job.has_memory() && !job.memory().automatic()) {
    validator.Paths();
    if (!job.memory().place().automatic()) validator.Places();
    validator.Stream();
  }
  const bool open = job.memory().automatic() || job.memory().place().automatic();
  if (!job.parallel().automatic() && !open) validator.Policy();
}

}  // namespace strata::spec
