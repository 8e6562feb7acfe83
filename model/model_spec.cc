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
constexpr int64_t kLargestHead = 256;  // that attention kernels have tiles for

absl::Status CheckSize(const char* name, int64_t value, int64_t largest) {
  if (value >= 1 && value <= largest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.", name, ": ", value, " is not between 1 and ", largest));
}

absl::Status CheckPositive(const char* name, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model.", name, ": must be greater than 0"));
}

absl::Status CheckCap(const char* name, double value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model.", name, ": must be 0 (none) or greater"));
}

absl::Status ScalingError(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("model.rope.scaling.", what));
}

absl::Status CheckPairs(const char* name, const std::vector<double>& factors, int64_t pairs) {
  if (static_cast<int64_t>(factors.size()) != pairs) {
    return ScalingError(absl::StrCat(name, ": has ", factors.size(), " numbers, but ", pairs,
                                     " pairs of elements of a head turn"));
  }
  for (const double factor : factors) {
    if (!std::isfinite(factor) || factor <= 0) {
      return ScalingError(absl::StrCat(name, ": must be greater than 0"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckScaling(const ModelSpec& spec) {
  using Kind = RopeScaling::Kind;
  const RopeScaling& scaling = spec.rope_scaling;
  if (scaling.kind == Kind::kNone) return absl::OkStatus();
  RETURN_IF_ERROR(CheckPositive("rope.scaling.factor", scaling.factor));
  RETURN_IF_ERROR(CheckCap("rope.scaling.attention_factor", scaling.attention_factor));
  if (scaling.kind == Kind::kLinear) return absl::OkStatus();
  RETURN_IF_ERROR(CheckSize("rope.scaling.original_max_position_embeddings",
                            scaling.original_context, kLargestVocab));
  if (scaling.kind == Kind::kLlama3) {
    RETURN_IF_ERROR(CheckPositive("rope.scaling.low_freq_factor", scaling.low_freq_factor));
    RETURN_IF_ERROR(CheckPositive("rope.scaling.high_freq_factor", scaling.high_freq_factor));
    if (scaling.high_freq_factor > scaling.low_freq_factor) return absl::OkStatus();
    return ScalingError("high_freq_factor: must be greater than low_freq_factor");
  }
  if (scaling.kind == Kind::kYarn) {
    RETURN_IF_ERROR(CheckPositive("rope.scaling.beta_fast", scaling.beta_fast));
    RETURN_IF_ERROR(CheckPositive("rope.scaling.beta_slow", scaling.beta_slow));
    return CheckPositive("rope.theta (yarn's must not be 1)", std::abs(spec.rope_theta - 1));
  }
  RETURN_IF_ERROR(CheckPairs("short_factor", scaling.short_factor, spec.rotated() / 2));
  return CheckPairs("long_factor", scaling.long_factor, spec.rotated() / 2);
}

absl::Status CheckPositions(const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckPositive("rope.theta", spec.rope_theta));
  if (spec.local_rope_theta != 0) {
    RETURN_IF_ERROR(CheckPositive("rope.local_theta", spec.local_rope_theta));
  }
  if (spec.rotary_size < 0 || spec.rotary_size > spec.head_size || spec.rotary_size % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.rope.partial_rotary_factor: ", spec.rotary_size,
        " elements of a head turn — they must be even in number, of ", spec.head_size));
  }
  return CheckScaling(spec);
}

absl::Status CheckAttention(const ModelSpec& spec) {
  if (spec.sliding_window < 0) {
    return absl::InvalidArgumentError("model.sliding_window: must be 1 or greater");
  }
  if (!spec.full_attention.empty() &&
      static_cast<int64_t>(spec.full_attention.size()) != spec.layers) {
    return absl::InvalidArgumentError(absl::StrCat("model.full_attention_layers: says it of ",
                                                   spec.full_attention.size(),
                                                   " layers, but there are ", spec.layers));
  }
  RETURN_IF_ERROR(CheckCap("query_scale", spec.query_scale));
  RETURN_IF_ERROR(CheckCap("attention_softcap", spec.attention_softcap));
  RETURN_IF_ERROR(CheckCap("logit_softcap", spec.logit_softcap));
  if (spec.family != Family::kGpt2) return absl::OkStatus();
  if (spec.kv_heads != spec.heads || spec.attention_width() != spec.hidden) {
    return absl::InvalidArgumentError(
        "model.heads: gpt2 has as many heads for keys as for queries, and heads of hidden / heads");
  }
  return absl::OkStatus();
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
  if (spec.head_size > kLargestHead) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.head_size: ", spec.head_size, " is more than ", kLargestHead));
  }
  RETURN_IF_ERROR(CheckPositions(spec));
  RETURN_IF_ERROR(CheckAttention(spec));
  RETURN_IF_ERROR(CheckPositive("norm_epsilon", spec.norm_epsilon));
  if (!std::isfinite(spec.initial_std) || spec.initial_std < 0) {
    return absl::InvalidArgumentError("model.initial_std: must be 0 or greater");
  }
  return absl::OkStatus();
}

}  // namespace strata::model
