// Frozen weights on their way into NF4 units (kernels/nf4.h).
#ifndef STRATA_WORKER_TRAINER_QUANTISED_WEIGHTS_H_
#define STRATA_WORKER_TRAINER_QUANTISED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "checkpoint/tensor_source.h"
#include "program/ir/parameter_set.h"

namespace strata::worker {

// Fills `units`, those of the set's flat layout from element `begin` on, on the rank with this
// index in the groups that its tensors are cut over. The offset of a tensor's scales is their mean
// over the whole tensor, of which every rank reads all: so layouts agree on it. Memory stays at a
// few units whatever the set. Errors of the source.
absl::Status LoadQuantised(const program::ParameterSet& set, int64_t begin, int64_t cut_index,
                           checkpoint::TensorSource& source, absl::Span<std::byte> units);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_QUANTISED_WEIGHTS_H_
