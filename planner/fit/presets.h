// Published models by name: sizes as their authors give them, for memory reports of models whose
// files are not at hand.
#ifndef STRATA_PLANNER_FIT_PRESETS_H_
#define STRATA_PLANNER_FIT_PRESETS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/model_spec.h"

namespace strata::planner {

// A model that Strata trains is all in `spec`. Of the others `spec` has the sizes alone, and `kind`
// says what they are; closed_form.h counts them.
struct FitModel {
  enum class Kind : uint8_t {
    kFamily,   // of model/families
    kMoe,      // Mixtral (Jiang et al., 2024): a router and `experts` feed-forward layers a block
    kEncoder,  // BERT (Devlin et al., 2019): learned positions and types, biases, a pooler
    kVision,   // ViT (Dosovitskiy et al., 2021): patches, a class token, a head of `vocab` classes
    kPlain,    // an MLP: `ffn` inputs, `layers` square layers of `hidden`, `vocab` outputs
  };

  std::string name;
  Kind kind = Kind::kFamily;
  model::ModelSpec spec;
  int64_t experts = 1, experts_per_token = 1;  // kMoe
  int64_t patch_inputs = 0;                    // kVision: numbers of a patch, 3 · 16 · 16

  // All trained values, a tied table once.
  double parameters() const;
  // Of the layers that LoRA's "all-linear" and quantisation take: matrices of blocks.
  double block_matrices() const;
  // Σ (in + out) of them: parameters of adapters of rank 1.
  double adapter_widths() const;
};

struct Preset {
  const char* name;
  // As published: of the safetensors index or the paper's code, a tied table counted once; for
  // models with a vision tower, of the language model.
  int64_t published_parameters;
};

// In the order of the table.
const std::vector<Preset>& AllPresets();

// NotFound, with the nearest name. Case does not count, `_` is `-`, and names are understood as
// people write them: "gpt-2", "vit-base", "meta-llama/Llama-3.1-8B-Instruct",
// "google/vit-base-patch16-224".
absl::StatusOr<FitModel> PresetModel(absl::string_view name);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_FIT_PRESETS_H_
