#include "client/inference_flags.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "client/job_loading.h"
#include "client/machine.h"
#include "spec/memory_text.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

v1::TrainSpec::Precision PrecisionOf(const std::string& word) {
  if (word == "bf16") return v1::TrainSpec::PRECISION_BF16;
  return word == "f16" ? v1::TrainSpec::PRECISION_F16 : v1::TrainSpec::PRECISION_F32;
}

}  // namespace

std::vector<Flag> InferenceFlags() {
  Flag precision{"--precision", Flag::Kind::kWord, "TYPE", "of the computation (default: f32)"};
  precision.words = {"f32", "bf16", "f16"};
  Flag device{"--device", Flag::Kind::kWord, "DEVICE", "that computes (default: cpu)"};
  device.words = {"cpu", "gpu"};
  return {{"--ranks", Flag::Kind::kCount, "N", "processes that share the layers (default: 1)", "",
           1, 1024},
          precision,
          device,
          {"--memory", Flag::Kind::kText, "TIERS",
           "where parameters live, as `memory` of job files: '{device: 2GiB, place: {parameters: "
           "host}, stream: {resident: 2, moved: 1}}'"}};
}

absl::Status SetInference(const Arguments& arguments, strata::v1::StandaloneRequest& request) {
  request.set_ranks(arguments.Count("--ranks").value_or(1));
  request.set_threads_per_rank(ThreadsPerRank(request.ranks()));
  request.set_precision(PrecisionOf(arguments.Text("--precision", "f32")));
  if (const std::string device = arguments.Text("--device", "cpu"); device != "cpu") {
    if (request.ranks() > 1) {
      return absl::InvalidArgumentError(absl::StrCat("--device: ", device, " with ",
                                                     request.ranks(),
                                                     " ranks is not supported yet — use one\n"));
    }
    request.mutable_job()->mutable_resources()->set_device(device);
  }
  if (!arguments.Has("--memory")) return absl::OkStatus();
  spec::Problems problems("--memory");
  *request.mutable_memory() = spec::ReadMemory(arguments.Text("--memory"), problems);
  for (auto& ssd : *request.mutable_memory()->mutable_ssd()) {
    ssd.set_path(Absolute(ssd.path()));
  }
  return problems.ToStatus();
}

}  // namespace strata::client
