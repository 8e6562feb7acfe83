// AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019, algorithm 2):
// what it keeps, what it decays, and the template of one update.
#ifndef STRATA_MODEL_OPTIMIZER_ADAMW_H_
#define STRATA_MODEL_OPTIMIZER_ADAMW_H_

#include <cstdint>
#include <vector>

#include "model/optimizer/number_formats.h"
#include "program/ir/parameter_set.h"
#include "program/ir/template.h"

namespace strata::model {

struct AdamWSpec {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;  // times the learning rate
};

// First and second moment: "adam.m", "adam.v".
std::vector<program::StateSpec> AdamWMoments(const NumberFormats& formats);

// Update of a range of the set's flat layout.
// All in f32; formals, of count × 4 bytes but the scalars: kParameters 0 (version s) and 1 (s + 1),
// kState 0 and 1 (moments, s) and 2 and 3 (s + 1), kGradients 0, kScalars. Versions may share
// bytes.
program::Template EmitAdamW(const program::ParameterSet& set, const AdamWSpec& spec,
                            const program::UpdateRange& range);
// In any numbers; the one above where all are f32, else formals as UpdateTemplate says.
program::Template EmitAdamW(const program::ParameterSet& set, const AdamWSpec& spec,
                            const NumberFormats& formats, const program::UpdateRange& range);

}  // namespace strata::model

#endif  // STRATA_MODEL_OPTIMIZER_ADAMW_H_
