#include "kernels/activation.h"

#include "kernels/cpu/functions.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

// body(an object of the function's type).
template <typename Body>
void WithFunction(Function function, const Body& body) {
  switch (function) {
    case Function::kSilu:
      return body(simd::Silu{});
    case Function::kGeluTanh:
      return body(simd::GeluTanh{});
    case Function::kGelu:
      return body(simd::Gelu{});
  }
}

}  // namespace

template <typename T>
void ActivationForward(const Context& context, int64_t count, Function function, const T* x, T* h) {
  WithFunction(function, [&](auto f) {
    ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
      simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
        lanes.Store(h + begin + i, f.Value(lanes.Load(x + begin + i)));
      });
    });
  });
}

template <typename T>
void ActivationBackward(const Context& context, int64_t count, Function function, const T* dh,
                        const T* x, T* dx) {
  WithFunction(function, [&](auto f) {
    ForBlocks(context, count, kElementsPerTask, [=](int64_t begin, int64_t end) {
      simd::ForEachVec(end - begin, [=](int64_t i, auto lanes) {
        const Vec slope = f.Both(lanes.Load(x + begin + i)).slope;
        lanes.Store(dx + begin + i, simd::Mul(lanes.Load(dh + begin + i), slope));
      });
    });
  });
}

template <typename T>
void GatedForward(const Context& context, int64_t rows, int64_t ffn, Function function,
                  const T* gate_up, T* h) {
  WithFunction(function, [&](auto f) {
    ForBlocks(context, rows, RowsPerTask(ffn), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up + row * 2 * ffn;
        const T* up = gate + ffn;
        T* to = h + row * ffn;
        simd::ForEachVec(ffn, [=](int64_t i, auto lanes) {
          lanes.Store(to + i, simd::Mul(f.Value(lanes.Load(gate + i)), lanes.Load(up + i)));
        });
      }
    });
  });
}

template <typename T>
void GatedBackward(const Context& context, int64_t rows, int64_t ffn, Function function,
                   const T* dh, const T* gate_up, T* dgate_up) {
  WithFunction(function, [&](auto f) {
    ForBlocks(context, rows, RowsPerTask(ffn), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T* gate = gate_up + row * 2 * ffn;
        const T* up = gate + ffn;
        const T* from = dh + row * ffn;
        T* dgate = dgate_up + row * 2 * ffn;
        T* dup = dgate + ffn;
        simd::ForEachVec(ffn, [=](int64_t i, auto lanes) {
          const Vec g = lanes.Load(gate + i), u = lanes.Load(up + i), d = lanes.Load(from + i);
          const simd::ValueAndSlope at = f.Both(g);
          lanes.Store(dgate + i, simd::Mul(simd::Mul(d, u), at.slope));
          lanes.Store(dup + i, simd::Mul(d, at.value));
        });
      }
    });
  });
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, ActivationForward, const Context&, int64_t, Function, const T*, T*)
STRATA_KERNEL(void, ActivationBackward, const Context&, int64_t, Function, const T*, const T*, T*)
STRATA_KERNEL(void, GatedForward, const Context&, int64_t, int64_t, Function, const T*, T*)
STRATA_KERNEL(void, GatedBackward, const Context&, int64_t, int64_t, Function, const T*, const T*,
              T*)

}  // namespace strata::kernels
