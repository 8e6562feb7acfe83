#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "spec/schema.h"
#include "spec/validate.h"

namespace strata::spec {
namespace {

using strata::v1::JobSpec;
using strata::v1::ParallelSpec;
using strata::v1::TrainSpec;

class SupportCheck {
 public:
  SupportCheck(const PositionMap& positions, Problems& problems)
      : positions_(positions), problems_(problems) {}

  // `value` is what was asked for; `instead` what works today.
  void Refuse(bool unsupported, const std::string& path, absl::string_view value,
              absl::string_view instead) {
    if (!unsupported || problems_.Concerns(path)) return;
    problems_.Add({positions_.Of(path), path, absl::StrCat(Shown(value), " is not supported yet"),
                   std::string(instead)});
  }
  template <typename Enum>
  void RefuseWord(bool unsupported, const std::string& path, Enum value,
                  absl::string_view instead) {
    const auto* type = google::protobuf::GetEnumDescriptor<Enum>();
    Refuse(unsupported, path, WordOf(*type->FindValueByNumber(value)), instead);
  }

 private:
  const PositionMap& positions_;
  Problems& problems_;
};

void CheckTrain(const TrainSpec& train, SupportCheck& check) {
  check.Refuse(train.micro_batch() == 0, "train.micro_batch", "auto", "give a number");
  check.RefuseWord(train.precision() == TrainSpec::PRECISION_FP8, "train.precision",
                   train.precision(), "use bf16");
  const int64_t block = train.quantize().block();
  check.Refuse(train.quantize().has_block() && block != 64, "train.quantize.block",
               absl::StrCat("block ", block), "use 64");
}

void CheckParallel(const ParallelSpec& parallel, SupportCheck& check) {
  check.Refuse(parallel.automatic(), "parallel", "auto", "give the degrees, such as {data: 2}");
  if (parallel.automatic()) return;
  check.RefuseWord(parallel.update_policy() == ParallelSpec::UPDATE_POLICY_LAGGED,
                   "parallel.update_policy", parallel.update_policy(), "use deferred");
}

// The gradient is what the first moments differ by: it needs all of their bits.
void CheckSpeculative(const JobSpec& job, SupportCheck& check) {
  if (job.parallel().update_policy() != ParallelSpec::UPDATE_POLICY_SPECULATIVE) return;
  const strata::v1::OptimizerSpec& optimizer = job.train().optimizer();
  const bool sgd = optimizer.name() == strata::v1::OptimizerSpec::NAME_SGD;
  // Larger ones are narrower; 0 is not given.
  const bool narrow = job.train().precision() > TrainSpec::PRECISION_F32 ||
                      optimizer.state() > strata::v1::OptimizerSpec::STATE_F32 ||
                      optimizer.gradient() > strata::v1::OptimizerSpec::GRADIENT_F32 ||
                      job.parallel().spool() > ParallelSpec::SPOOL_F32;
  check.Refuse(sgd || narrow, "parallel.update_policy",
               sgd ? "speculative with sgd" : "speculative with other numbers than f32",
               "use deferred or spooled");
}

// Such as nodes tell (topology::KindOfProduct): h100, rtx-a6000. Which there are the cluster knows.
bool IsKindOfGpu(const std::string& device) {
  const auto may_be = [](unsigned char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-';
  };
  return std::all_of(device.begin(), device.end(), may_be) &&
         std::any_of(device.begin(), device.end(), absl::ascii_isdigit);
}

}  // namespace

void CheckSupported(const JobSpec& job, const PositionMap& positions, Problems& problems) {
  SupportCheck check(positions, problems);
  CheckTrain(job.train(), check);
  CheckParallel(job.parallel(), check);
  CheckSpeculative(job, check);
  check.Refuse(job.memory().automatic(), "memory", "auto",
               "name the tiers, such as {device: 8GiB}");
  check.Refuse(job.memory().place().automatic(), "memory.place", "auto",
               "name the tiers, such as {optimizer: host}");
  const std::string& device = job.resources().device();
  check.Refuse(device != "cpu" && device != "gpu" && !IsKindOfGpu(device), "resources.device",
               device, "use cpu, gpu, or a kind of GPU in lower case, such as h100");
}

}  // namespace strata::spec
