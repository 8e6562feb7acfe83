// Frozen weights on their way into NF4 units (kernels/nf4.h) or rows of 8 bits (kernels/int8.h).
#ifndef STRATA_WORKER_TRAINER_QUANTISED_WEIGHTS_H_
#define STRATA_WORKER_TRAINER_QUANTISED_WEIGHTS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "checkpoint/tensor_source.h"
#include "program/ir/parameter_set.h"

namespace strata::worker {

// Fills `bytes`, those of the set's flat layout from element `begin` on, on the rank with this
// index in the groups that its tensors are cut over. Scales are those of the whole tensor, of which
// ranks read what they do not hold too: the offset of NF4's, which is their mean, and in 8 bits
// those of rows that are cut. So layouts agree on them. Memory stays at a few units or rows
// whatever the set. Errors of the source.
absl::Status LoadQuantised(const program::ParameterSet& set, int64_t begin, int64_t cut_index,
                           checkpoint::TensorSource& source, absl::Span<std::byte> bytes);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_QUANTISED_WEIGHTS_H_
