#include "model/model_spec_proto.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "model/family_defaults.h"

namespace strata::model {
namespace {

constexpr std::pair<v1::ModelSpec::Family, Family> kFamilies[] = {
    {v1::ModelSpec::FAMILY_LLAMA, Family::kLlama},
    {v1::ModelSpec::FAMILY_GPT2, Family::kGpt2},
    {v1::ModelSpec::FAMILY_MISTRAL, Family::kMistral},
    {v1::ModelSpec::FAMILY_QWEN2, Family::kQwen2},
    {v1::ModelSpec::FAMILY_QWEN3, Family::kQwen3},
    {v1::ModelSpec::FAMILY_GEMMA2, Family::kGemma2},
    {v1::ModelSpec::FAMILY_GEMMA3, Family::kGemma3},
    {v1::ModelSpec::FAMILY_PHI3, Family::kPhi3}};

constexpr std::pair<const char*, RopeScaling::Kind> kScalings[] = {
    {"linear", RopeScaling::Kind::kLinear},
    {"llama3", RopeScaling::Kind::kLlama3},
    {"longrope", RopeScaling::Kind::kLongRope},
    {"yarn", RopeScaling::Kind::kYarn}};

constexpr std::pair<v1::ModelSpec::Activation, Activation> kActivations[] = {
    {v1::ModelSpec::ACTIVATION_SILU, Activation::kSilu},
    {v1::ModelSpec::ACTIVATION_GELU_TANH, Activation::kGeluTanh},
    {v1::ModelSpec::ACTIVATION_GELU, Activation::kGelu}};

absl::Status ReadSizes(const v1::ModelSpec& message, ModelSpec& spec) {
  spec.layers = message.layers();
  spec.hidden = message.hidden();
  spec.heads = message.heads();
  spec.kv_heads = message.has_kv_heads() ? message.kv_heads() : spec.heads;
  spec.ffn = message.ffn();
  spec.vocab = message.vocab();
  spec.context = message.context();
  if (message.has_head_size()) {
    spec.head_size = message.head_size();
  } else if (spec.heads > 0 && spec.hidden % spec.heads == 0) {
    spec.head_size = spec.hidden / spec.heads;
  } else {
    return absl::InvalidArgumentError(
        "model.head_size: missing, and heads do not divide hidden — set it");
  }
  return absl::OkStatus();
}

// As transformers rounds it.
int64_t RotaryOf(double factor, int64_t head_size) {
  return static_cast<int64_t>(static_cast<double>(head_size) * factor);
}

absl::Status ReadScaling(const v1::RopeScaling& message, ModelSpec& spec) {
  RopeScaling& scaling = spec.rope_scaling;
  for (const auto& [name, kind] : kScalings) {
    if (message.rope_type() == name) scaling.kind = kind;
  }
  if (scaling.kind == RopeScaling::Kind::kNone) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.rope.scaling.rope_type: ", message.rope_type(),
                     " is not one of linear, llama3, longrope and yarn"));
  }
  const bool longrope = scaling.kind == RopeScaling::Kind::kLongRope;
  scaling.original_context = message.original_max_position_embeddings();
  if (message.has_factor()) {
    scaling.factor = message.factor();
  } else if (longrope && scaling.original_context > 0) {
    scaling.factor =
        static_cast<double>(spec.context) / static_cast<double>(scaling.original_context);
  } else if (!longrope) {
    return absl::InvalidArgumentError("model.rope.scaling.factor: missing");
  }
  if (message.has_low_freq_factor()) scaling.low_freq_factor = message.low_freq_factor();
  if (message.has_high_freq_factor()) scaling.high_freq_factor = message.high_freq_factor();
  if (message.has_beta_fast()) scaling.beta_fast = message.beta_fast();
  if (message.has_beta_slow()) scaling.beta_slow = message.beta_slow();
  scaling.attention_factor = message.attention_factor();
  scaling.short_factor.assign(message.short_factor().begin(), message.short_factor().end());
  scaling.long_factor.assign(message.long_factor().begin(), message.long_factor().end());
  return absl::OkStatus();
}

absl::Status ReadRope(const v1::RopeSpec& message, ModelSpec& spec) {
  if (message.has_theta()) spec.rope_theta = message.theta();
  if (message.has_local_theta()) spec.local_rope_theta = message.local_theta();
  if (message.has_partial_rotary_factor()) {
    const double factor = message.partial_rotary_factor();
    if (!(factor > 0 && factor <= 1)) {
      return absl::InvalidArgumentError(
          "model.rope.partial_rotary_factor: must be above 0, and 1 at most");
    }
    const int64_t rotary = RotaryOf(factor, spec.head_size);
    if (rotary == 0) {
      return absl::InvalidArgumentError(
          "model.rope.partial_rotary_factor: nothing of a head turns");
    }
    spec.rotary_size = rotary == spec.head_size ? 0 : rotary;
  }
  return message.has_scaling() ? ReadScaling(message.scaling(), spec) : absl::OkStatus();
}

absl::Status ReadWindows(const v1::ModelSpec& message, ModelSpec& spec) {
  if (message.has_sliding_window()) {
    spec.sliding_window = message.sliding_window();
    if (spec.sliding_window < 1) {
      return absl::InvalidArgumentError("model.sliding_window: must be 1 or greater");
    }
  } else {
    spec.sliding_window = 0;  // absent says: none
  }
  if (message.full_attention_layers().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Validate(spec));  // as many layers as memory has room for
  spec.full_attention.assign(spec.layers, false);
  for (const int64_t layer : message.full_attention_layers()) {
    if (layer < 0 || layer >= spec.layers) {
      return absl::InvalidArgumentError(absl::StrCat("model.full_attention_layers: there is no ",
                                                     layer, " among ", spec.layers, " layers"));
    }
    spec.full_attention[layer] = true;
  }
  return absl::OkStatus();
}

void ReadOptions(const v1::ModelSpec& message, ModelSpec& spec) {
  if (message.has_tied_embeddings()) spec.tied_embeddings = message.tied_embeddings();
  if (message.has_initial_std()) spec.initial_std = message.initial_std();
  if (message.has_norm_epsilon()) spec.norm_epsilon = message.norm_epsilon();
  for (const auto& [value, activation] : kActivations) {
    if (message.activation() == value) spec.activation = activation;
  }
  if (message.has_attention_bias()) spec.attention_bias = message.attention_bias();
  if (message.has_output_bias()) spec.output_bias = message.output_bias();
  if (message.has_feed_forward_bias()) spec.feed_forward_bias = message.feed_forward_bias();
  if (message.has_query_scale()) spec.query_scale = message.query_scale();
  if (message.has_attention_softcap()) spec.attention_softcap = message.attention_softcap();
  if (message.has_logit_softcap()) spec.logit_softcap = message.logit_softcap();
}

void WriteRope(const ModelSpec& spec, v1::RopeSpec& message) {
  message.set_theta(spec.rope_theta);
  if (spec.local_rope_theta != 0) message.set_local_theta(spec.local_rope_theta);
  if (spec.rotary_size > 0) {
    double factor = static_cast<double>(spec.rotary_size) / static_cast<double>(spec.head_size);
    if (RotaryOf(factor, spec.head_size) < spec.rotary_size) factor = std::nextafter(factor, 1);
    message.set_partial_rotary_factor(factor);
  }
  const RopeScaling& scaling = spec.rope_scaling;
  for (const auto& [name, kind] : kScalings) {
    if (scaling.kind != kind) continue;
    v1::RopeScaling& to = *message.mutable_scaling();
    to.set_rope_type(name);
    to.set_factor(scaling.factor);
    if (scaling.original_context > 0) {
      to.set_original_max_position_embeddings(scaling.original_context);
    }
    if (scaling.attention_factor > 0) to.set_attention_factor(scaling.attention_factor);
    if (kind == RopeScaling::Kind::kLlama3) {
      to.set_low_freq_factor(scaling.low_freq_factor);
      to.set_high_freq_factor(scaling.high_freq_factor);
    }
    if (kind == RopeScaling::Kind::kYarn) {
      to.set_beta_fast(scaling.beta_fast);
      to.set_beta_slow(scaling.beta_slow);
    }
    to.mutable_short_factor()->Add(scaling.short_factor.begin(), scaling.short_factor.end());
    to.mutable_long_factor()->Add(scaling.long_factor.begin(), scaling.long_factor.end());
  }
}

}  // namespace

std::optional<Family> FamilyOf(v1::ModelSpec::Family family) {
  for (const auto& [value, known] : kFamilies) {
    if (family == value) return known;
  }
  return std::nullopt;
}

v1::ModelSpec::Family ToProto(Family family) {
  for (const auto& [value, known] : kFamilies) {
    if (family == known) return value;
  }
  return v1::ModelSpec::FAMILY_UNSPECIFIED;
}

absl::StatusOr<ModelSpec> FromProto(const v1::ModelSpec& message) {
  ASSIGN_OR_RETURN(ModelSpec spec, Unchecked(message));
  RETURN_IF_ERROR(Validate(spec));
  return spec;
}

absl::StatusOr<ModelSpec> Unchecked(const v1::ModelSpec& message) {
  const std::optional<Family> family = FamilyOf(message.family());
  if (!family) return absl::InvalidArgumentError("model.family: missing");
  ModelSpec spec = DefaultsOf(*family);
  RETURN_IF_ERROR(ReadSizes(message, spec));
  RETURN_IF_ERROR(ReadRope(message.rope(), spec));
  ReadOptions(message, spec);
  RETURN_IF_ERROR(ReadWindows(message, spec));
  return spec;
}

v1::ModelSpec ToProto(const ModelSpec& spec) {
  v1::ModelSpec message;
  message.set_family(ToProto(spec.family));
  message.set_layers(spec.layers);
  message.set_hidden(spec.hidden);
  message.set_heads(spec.heads);
  message.set_kv_heads(spec.kv_heads);
  message.set_head_size(spec.head_size);
  message.set_ffn(spec.ffn);
  message.set_vocab(spec.vocab);
  message.set_context(spec.context);
  message.set_tied_embeddings(spec.tied_embeddings);
  WriteRope(spec, *message.mutable_rope());
  message.set_initial_std(spec.initial_std);
  message.set_norm_epsilon(spec.norm_epsilon);
  for (const auto& [value, activation] : kActivations) {
    if (spec.activation == activation) message.set_activation(value);
  }
  message.set_attention_bias(spec.attention_bias);
  message.set_output_bias(spec.output_bias);
  message.set_feed_forward_bias(spec.feed_forward_bias);
  if (spec.sliding_window > 0) message.set_sliding_window(spec.sliding_window);
  for (size_t layer = 0; layer < spec.full_attention.size(); ++layer) {
    if (spec.full_attention[layer]) message.add_full_attention_layers(static_cast<int64_t>(layer));
  }
  if (spec.query_scale > 0) message.set_query_scale(spec.query_scale);
  const ModelSpec usual = DefaultsOf(spec.family);
  if (spec.attention_softcap > 0 || usual.attention_softcap > 0) {
    message.set_attention_softcap(spec.attention_softcap);
  }
  if (spec.logit_softcap > 0 || usual.logit_softcap > 0) {
    message.set_logit_softcap(spec.logit_softcap);
  }
  return message;
}

}  // namespace strata::model
