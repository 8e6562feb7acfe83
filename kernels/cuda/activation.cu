// A thread per packet: of a flat array, or of a row's columns.
#include "kernels/cuda/activation.h"
#include "kernels/cuda/elements.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// 1 / (1 + 2^x): two instructions that are right to 2 units of f32's last place, and their sum. An
// exact division and exp would take longer than memory does.
__device__ __forceinline__ float InverseOfOnePlusPower(float x) {
  float power, inverse;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.f + power));
  return inverse;
}
constexpr float kLog2E = 1.44269504089f;

// In [-bound, bound]: of infinities, products with what is 0 there give 0.
__device__ float Clamp(float x, float bound) { return fminf(fmaxf(x, -bound), bound); }

// f(x) = x P(x), by P and by f'. NaN stays NaN.
struct Silu {
  static __device__ float Share(float x) { return InverseOfOnePlusPower(-kLog2E * x); }
  static __device__ float Slope(float x, float share) { return share * (1.f + x * (1.f - share)); }
};

// (1 + tanh(u)) / 2 = sigmoid(2 u), which has no difference to lose digits in.
struct GeluTanh {
  static constexpr float kLinear = 1.5957691216f;    // 2 sqrt(2 / pi)
  static constexpr float kCubic = 0.0713548162726f;  // the same times 0.044715
  static constexpr float kBound = 16;                // beyond it the sigmoid is 0 or 1

  static __device__ float Share(float x) {
    return InverseOfOnePlusPower(x * (x * x * (-kLog2E * kCubic) - kLog2E * kLinear));
  }
  static __device__ float Slope(float x, float share) {
    const float at = Clamp(x, kBound);
    return share + at * share * (at * at * (3 * kCubic) + kLinear) * (1.f - share);
  }
};

struct Gelu {
  static constexpr float kBound = 14;  // beyond it exp(-x^2 / 2) is 0

  static __device__ float Share(float x) { return normcdff(x); }
  static __device__ float Slope(float x, float share) {
    const float at = Clamp(x, kBound);
    return share + at * expf(-0.5f * at * at) * 0.398942280401f;
  }
};

// body(an object of the function's type): the branch is the same on all threads.
template <typename Body>
__device__ __forceinline__ void WithFunction(Function function, Body body) {
  switch (function) {
    case Function::kSilu:
      return body(Silu());
    case Function::kGeluTanh:
      return body(GeluTanh());
    case Function::kGelu:
      return body(Gelu());
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ActivationForwardKernel(int64_t count, bool wide, Function function, const T* x, T* h) {
  WithFunction(function, [&](auto f) {
    ForElements<T>(count, wide, [&]<int N>(Elements<N>, int64_t at) {
      float v[N];
      Load(x + at, v);
#pragma unroll
      for (int i = 0; i < N; ++i) v[i] *= f.Share(v[i]);
      Store(h + at, v);
    });
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    ActivationBackwardKernel(int64_t count, bool wide, Function function, const T* dh, const T* x,
                             T* dx) {
  WithFunction(function, [&](auto f) {
    ForElements<T>(count, wide, [&]<int N>(Elements<N>, int64_t at) {
      float d[N], v[N];
      Load(dh + at, d);
      Load(x + at, v);
#pragma unroll
      for (int i = 0; i < N; ++i) d[i] *= f.Slope(v[i], f.Share(v[i]));
      Store(dx + at, d);
    });
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    GatedForwardKernel(int64_t rows, int64_t ffn, Function function, const T* gate_up, T* h) {
  WithFunction(function, [&](auto f) {
    ForRows<N>(rows, ffn, [&](int64_t row, int64_t c) {
      float gate[N], up[N];
      Load(gate_up + row * 2 * ffn + c, gate);
      Load(gate_up + row * 2 * ffn + ffn + c, up);
#pragma unroll
      for (int i = 0; i < N; ++i) up[i] *= gate[i] * f.Share(gate[i]);
      Store(h + row * ffn + c, up);
    });
  });
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads, 4)
    GatedBackwardKernel(int64_t rows, int64_t ffn, Function function, const T* dh, const T* gate_up,
                        T* dgate_up) {
  WithFunction(function, [&](auto f) {
    ForRows<N>(rows, ffn, [&](int64_t row, int64_t c) {
      const int64_t at = row * 2 * ffn + c;
      float d[N], gate[N], up[N];
      Load(dh + row * ffn + c, d);
      Load(gate_up + at, gate);
      Load(gate_up + at + ffn, up);
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float x = gate[i], share = f.Share(x);
        gate[i] = d[i] * up[i] * f.Slope(x, share);
        up[i] = d[i] * x * share;
      }
      Store(dgate_up + at, gate);
      Store(dgate_up + at + ffn, up);
    });
  });
}

absl::Status CheckCount(int64_t count) {
  if (count >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("activation of ", count, " elements"));
}

absl::Status CheckGate(int64_t rows, int64_t ffn) {
  if (rows < 0 || ffn < 1 || ffn > int64_t{1} << 29) {
    return absl::InvalidArgumentError(absl::StrCat("gate of ", rows, " rows of ", ffn));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename T>
absl::Status ActivationForward(cudaStream_t stream, int64_t count, Function function, const T* x,
                               T* h) {
  RETURN_IF_ERROR(CheckCount(count));
  if (count == 0) return absl::OkStatus();
  const bool wide = ByPackets<T>(0, x, h);
  return Launch("activation", &ActivationForwardKernel<T>,
                BlocksForElements<T>(count, wide, kThreads), kThreads, 0, stream, count, wide,
                function, x, h);
}

template <typename T>
absl::Status ActivationBackward(cudaStream_t stream, int64_t count, Function function, const T* dh,
                                const T* x, T* dx) {
  RETURN_IF_ERROR(CheckCount(count));
  if (count == 0) return absl::OkStatus();
  const bool wide = ByPackets<T>(0, dh, x, dx);
  return Launch("activation's gradient", &ActivationBackwardKernel<T>,
                BlocksForElements<T>(count, wide, kThreads), kThreads, 0, stream, count, wide,
                function, dh, x, dx);
}

template <typename T>
absl::Status GatedForward(cudaStream_t stream, int64_t rows, int64_t ffn, Function function,
                          const T* gate_up, T* h) {
  RETURN_IF_ERROR(CheckGate(rows, ffn));
  if (rows == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(ffn, gate_up, h);
  const auto [grid, threads] = GridOfRows(rows, by_packets ? ffn / kPacket<T> : ffn);
  return Launch("gate", by_packets ? &GatedForwardKernel<T, kPacket<T>> : &GatedForwardKernel<T, 1>,
                grid, threads, 0, stream, rows, ffn, function, gate_up, h);
}

template <typename T>
absl::Status GatedBackward(cudaStream_t stream, int64_t rows, int64_t ffn, Function function,
                           const T* dh, const T* gate_up, T* dgate_up) {
  RETURN_IF_ERROR(CheckGate(rows, ffn));
  if (rows == 0) return absl::OkStatus();
  const bool by_packets = ByPackets<T>(ffn, dh, gate_up, dgate_up);
  const auto [grid, threads] = GridOfRows(rows, by_packets ? ffn / kPacket<T> : ffn);
  return Launch("gate's gradient",
                by_packets ? &GatedBackwardKernel<T, kPacket<T>> : &GatedBackwardKernel<T, 1>, grid,
                threads, 0, stream, rows, ffn, function, dh, gate_up, dgate_up);
}

#define STRATA_INSTANTIATE(T)                                                                      \
  template absl::Status ActivationForward<T>(cudaStream_t, int64_t, Function, const T*, T*);       \
  template absl::Status ActivationBackward<T>(cudaStream_t, int64_t, Function, const T*, const T*, \
                                              T*);                                                 \
  template absl::Status GatedForward<T>(cudaStream_t, int64_t, int64_t, Function, const T*, T*);   \
  template absl::Status GatedBackward<T>(cudaStream_t, int64_t, int64_t, Function, const T*,       \
                                         const T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
