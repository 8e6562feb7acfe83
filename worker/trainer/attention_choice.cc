#include "worker/trainer/attention_choice.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

// The devices that cuDNN's attention is taken on by itself: Hopper, where it was measured right and
// faster. Of older ones mma.sync, which our kernels multiply by, is the fastest instruction; on
// newer ones cuDNN's deterministic backward is another algorithm, which nobody has run.
constexpr int kProvenCapability = 90;

constexpr absl::string_view kBuiltWithout = "this trainer was built without cuDNN";

std::string VersionText(int64_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// Why not cuDNN's where nobody has wished for anything; empty: it is taken.
std::string WhyOurs(const CudnnFacts& facts) {
  if (facts.capability != kProvenCapability) {
    return absl::StrCat("cuDNN's is not the default on compute capability ", facts.capability / 10,
                        ".", facts.capability % 10, "; STRATA_GPU_CUDNN=1 takes it");
  }
  if (!facts.built) return absl::StrCat(kBuiltWithout, ": ./dev build --cuda has it");
  const absl::StatusOr<int64_t> version = facts.version();
  if (!version.ok()) return std::string(version.status().message());
  if (*version >= kLeastCudnn) return "";
  return absl::StrCat("cuDNN ", VersionText(*version), " is older than ", VersionText(kLeastCudnn),
                      "; STRATA_GPU_CUDNN=1 takes it");
}

}  // namespace

absl::StatusOr<AttentionChoice> ChooseAttention(const char* wish, const CudnnFacts& facts) {
  if (wish == nullptr) {
    const std::string why = WhyOurs(facts);
    return AttentionChoice{.cudnn = why.empty(), .demanded = false, .why = why};
  }
  const absl::string_view wished = wish;
  if (wished == "0") return AttentionChoice{false, false, "STRATA_GPU_CUDNN=0"};
  if (wished != "1") {
    return absl::InvalidArgumentError(
        absl::StrCat("STRATA_GPU_CUDNN=", wished,
                     " is neither 0 nor 1: 0 takes Strata's attention, 1 demands cuDNN's"));
  }
  if (!facts.built) {
    return absl::FailedPreconditionError(absl::StrCat("STRATA_GPU_CUDNN=1: ", kBuiltWithout,
                                                      " — ./dev build --cuda has it; or unset it"));
  }
  RETURN_IF_ERROR(facts.version().status());
  return AttentionChoice{.cudnn = true, .demanded = true, .why = ""};
}

}  // namespace strata::worker
