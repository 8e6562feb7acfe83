// Whether a job can fit on this machine at all.
#ifndef STRATA_CLIENT_FEASIBILITY_H_
#define STRATA_CLIENT_FEASIBILITY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

// Bytes that all ranks of a job must hold at the least of its `parameters`: in f32 4 for the
// weight, 4 for the gradient and 8 for Adam's two moments of each on every rank of data
// (docs/precision.md has those of other types); with zero1 the optimizer's state is held once, with
// zero2 gradients too, with zero3 everything (Rajbhandari et al., "ZeRO", SC 2020, §5). Of adapters
// the weights beside them count, of QLoRA's half a byte each. Activations are left out, so this
// never refuses a job that fits.
double LeastBytes(const strata::v1::JobSpec& job, double parameters);

// OK when LeastBytes fits into `memory_bytes` of one machine, or when that is unknown (0).
// ResourceExhausted with the arithmetic otherwise. `job` has its defaults.
absl::Status CheckFits(const strata::v1::JobSpec& job, double parameters, int64_t memory_bytes);

}  // namespace strata::client

#endif  // STRATA_CLIENT_FEASIBILITY_H_
