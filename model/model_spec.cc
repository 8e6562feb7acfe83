#include "model/model_spec.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::model {
namespace {

// Far above any model; keeps every product of three sizes and the total of bytes inside 63 bits.
constexpr int64_t kLargestSize = int64_t{1} << 20;
constexpr int64_t kLargestVocab = int64_t{1} << 24;
constexpr int64_t kMostLayers = 4096;

absl::Status CheckSize(const char* name, int64_t value, int64_t largest) {
  if (value >= 1 && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", name, ": ", value, " is not between 1 and ", largest));
}

absl::Status CheckPositive(const char* name, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model.", name, ": must be greater than 0"));
}

}  // namespace

absl::Status Validate(const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckSize("layers", spec.layers, kMostLayers));
  RETURN_IF_ERROR(CheckSize("hidden", spec.hidden, kLargestSize));
  RETURN_IF_ERROR(CheckSize("heads", spec.heads, kLargestSize));
  RETURN_IF_ERROR(CheckSize("kv_heads", spec.kv_heads, spec.heads));
  RETURN_IF_ERROR(CheckSize("head_size", spec.head_size, kLargestSize / spec.heads));
  RETURN_IF_ERROR(CheckSize("ffn", spec.ffn, kLargestSize));
  RETURN_IF_ERROR(CheckSize("vocab", spec.vocab, kLargestVocab));
  RETURN_IF_ERROR(CheckSize("context", spec.context, kLargestVocab));
  if (spec.heads % spec.kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("model.kv_heads: ", spec.kv_heads,
                                                   " does not divide heads (", spec.heads, ")"));
  }
  if (spec.head_size % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.head_size: ", spec.head_size, " is odd (rotary embeddings turn pairs of elements)"));
  }
  RETURN_IF_ERROR(CheckPositive("rope.theta", spec.rope_theta));
  RETURN_IF_ERROR(CheckPositive("norm_epsilon", spec.norm_epsilon));
  if (!std::isfinite(spec.initial_std) || spec.initial_std < 0) {
    return absl::InvalidArgumentError("model.initial_std: must be 0 or greater");
  }
  return absl::OkStatus();
}

}  // namespace strata::model
