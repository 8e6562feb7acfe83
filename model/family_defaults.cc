#include "model/family_defaults.h"

namespace strata::model {
namespace {

void LikeGemma(ModelSpec& spec) {
  spec.norm_epsilon = 1e-6;
  spec.activation = Activation::kGeluTanh;
  spec.tied_embeddings = true;
}

}  // namespace

std::vector<Family> AllFamilies() {
  return {Family::kLlama, Family::kGpt2,   Family::kMistral, Family::kQwen2,
          Family::kQwen3, Family::kGemma2, Family::kGemma3,  Family::kPhi3};
}

ModelSpec DefaultsOf(Family family) {
  ModelSpec spec;
  spec.family = family;
  switch (family) {
    case Family::kLlama:
    case Family::kMistral:
    case Family::kPhi3:
      break;
    case Family::kGpt2:
      spec.activation = Activation::kGeluTanh;
      spec.tied_embeddings = true;
      spec.attention_bias = spec.output_bias = spec.feed_forward_bias = true;
      break;
    case Family::kQwen2:
      spec.norm_epsilon = 1e-6;
      spec.attention_bias = true;
      break;
    case Family::kQwen3:
      spec.norm_epsilon = 1e-6;
      break;
    case Family::kGemma2:
      LikeGemma(spec);
      spec.sliding_window = 4096;
      spec.attention_softcap = 50;
      spec.logit_softcap = 30;
      break;
    case Family::kGemma3:
      LikeGemma(spec);
      spec.sliding_window = 1024;
      spec.rope_theta = 1e6;
      spec.local_rope_theta = 10000;
      break;
  }
  return spec;
}

std::vector<bool> UsualFullAttention(Family family, int64_t layers) {
  const int64_t every = family == Family::kGemma2 ? 2 : family == Family::kGemma3 ? 6 : 0;
  std::vector<bool> full;
  for (int64_t layer = 0; every > 0 && layer < layers; ++layer) {
    full.push_back((layer + 1) % every == 0);
  }
  return full;
}

}  // namespace strata::model
