// What the constants of a model's graphs hold: the angles of rotary positions, and where rows
// stand. Angles follow transformers (modeling_rope_utils.py): plain (Su et al., "RoFormer", 2021),
// linear, llama3 (Llama Team, "The Llama 3 Herd of Models", 2024), longrope (Ding et al.,
// "LongRoPE", 2024) and yarn (Peng et al., "YaRN", 2023).
#ifndef STRATA_MODEL_ROPE_TABLE_H_
#define STRATA_MODEL_ROPE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/model_spec.h"
#include "program/ir/context_rows.h"

namespace strata::model {

// The constants' names. Tables have a row per position: the cosines of its angles, then their
// sines, f32; local ones are of the layers with a sliding window where these have angles of their
// own. kRowPositions has the position of every row of a pass, i32.
inline constexpr char kRopeTable[] = "rope";
inline constexpr char kLocalRopeTable[] = "rope_local";
inline constexpr char kRowPositions[] = "positions";

// Angle i of position p is p · frequencies[i]; cosines and sines are multiplied by `magnitude`.
struct RotaryAngles {
  std::vector<double> frequencies;  // rotated() / 2
  double magnitude = 1;
};

// Of longrope: whether a sequence of that length is longer than the original context, so that all
// of its positions have the long factors. Else false.
bool IsExtended(const ModelSpec& spec, int64_t sequence);

// `extended`: of longrope, those of extended sequences.
RotaryAngles AnglesOf(const ModelSpec& spec, bool local, bool extended);

// `bytes` of the constant `name` where `rows` says which positions its rows are of; of
// kRowPositions they are those of each of a pass's sequences. `sequence` is how long sequences are.
void FillConstant(const ModelSpec& spec, const std::string& name,
                  absl::Span<const program::ContextRun> rows, int64_t sequence,
                  absl::Span<std::byte> bytes);

}  // namespace strata::model

#endif  // STRATA_MODEL_ROPE_TABLE_H_
