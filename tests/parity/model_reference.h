// A whole model's loss and gradients in f64, from its forward graphs node by node: nothing of
// templates, kernels, programs or layouts.
#ifndef STRATA_TESTS_PARITY_MODEL_REFERENCE_H_
#define STRATA_TESTS_PARITY_MODEL_REFERENCE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/model_spec.h"

namespace strata::testing {

// Elements of the tensors that users see, row-major, by name.
using NamedTensors = std::map<std::string, std::vector<double>>;

struct ModelGradients {
  double loss = 0;  // of all rows, mean over batch · sequence
  NamedTensors gradients;
};

// Initial weights of `seed`, as every layout has them.
NamedTensors InitialWeights(const model::ModelSpec& spec, uint64_t seed);

// Tokens and targets [batch, sequence]; a negative target is not trained on, and counts in the
// mean. `positions` of tokens inside their documents; empty: each sequence is one.
ModelGradients GradientsOf(const model::ModelSpec& spec, const NamedTensors& weights,
                           int64_t sequence, const std::vector<int32_t>& tokens,
                           const std::vector<int32_t>& targets,
                           const std::vector<int32_t>& positions = {});

}  // namespace strata::testing

#endif  // STRATA_TESTS_PARITY_MODEL_REFERENCE_H_
