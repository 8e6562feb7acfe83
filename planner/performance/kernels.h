// Seconds of single kernels on one device.
#ifndef STRATA_PLANNER_PERFORMANCE_KERNELS_H_
#define STRATA_PLANNER_PERFORMANCE_KERNELS_H_

#include <cstdint>

#include "planner/performance/machine.h"

namespace strata::planner {

// How full the last wave leaves the processors: waves that `blocks` equal blocks take, in units of
// a full wave. Between the ceiling (each block whole on one processor) and the ratio (blocks split
// at will, as stream-K does): the mean of both.
double Waves(double blocks, double processors);

// `batch` products of M × K by K × N.
struct ProductSize {
  double batch = 1;
  double m = 0;
  double n = 0;
  double k = 0;
  double output_bytes = 2;  // moved per element of the output: read too where it is accumulated
};

// The best of a few tiles; each wave pays its tiles' rate and a prologue and epilogue, so that
// short K, few tiles and uneven waves lower the efficiency; part of the output's traffic is not
// hidden by the next tile's products; never faster than the operands move.
double ProductSeconds(const Machine& machine, Precision precision, const ProductSize& size);

// Kernels that move `bytes` in `kernels` launches.
double MemorySeconds(const Machine& machine, double bytes, double kernels);

// The same of the loss, whose exponentials bound it on fast memory: .28 to .32 of 8 TB/s on B200,
// fused (SimuMax v1.2).
double LossSeconds(const Machine& machine, double bytes, double kernels);

// Of an activation, of a parameter as kernels read it, and of what is sent of either.
double WidthOf(Precision precision);

struct AttentionTime {
  double forward = 0;
  double backward = 0;
};

// Causal attention of `batch` sequences, `heads` heads of a device, `queries` positions of the
// sequence's `length` on it (context parallel: length / degree, balanced). In 16 bits, but of a
// training in f32.
AttentionTime AttentionSeconds(const Machine& machine, double batch, double heads, double head_dim,
                               double queries, double length,
                               Precision precision = Precision::kHalf);

}  // namespace strata::planner

#endif  // STRATA_PLANNER_PERFORMANCE_KERNELS_H_
