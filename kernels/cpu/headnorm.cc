#include "kernels/headnorm.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/column_sums.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rms_row.h"
#include "kernels/cpu/simd.h"

namespace strata::kernels::STRATA_ISA {
namespace {

using simd::Vec;

template <typename T>
void CopyValues(const HeadNormShape& shape, const T* from, T* to) {
  if (from == to) return;
  const int64_t at = shape.norms() * shape.head_size;
  std::memcpy(to + at, from + at, shape.kv_heads * shape.head_size * sizeof(T));
}

}  // namespace

template <typename T>
void HeadNormForward(const Context& context, const HeadNormShape& shape, float epsilon,
                     const T* qkv, const T* wq, const T* wk, T* out, float* rstd) {
  const int64_t size = shape.head_size, width = shape.width(), norms = shape.norms();
  const Vec offset = WeightOffset(shape.plus_one);
  ForBlocks(context, shape.rows, RowsPerTask(width), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < norms; ++head) {
        const int64_t at = row * width + head * size;
        float* const of = rstd + row * norms + head;
        *of = RmsRstdOf(size, epsilon, qkv + at);
        RmsScaleRow(size, offset, *of, qkv + at, head < shape.heads ? wq : wk, out + at);
      }
      CopyValues(shape, qkv + row * width, out + row * width);
    }
  });
}

template <typename T>
void HeadNormReplay(const Context& context, const HeadNormShape& shape, const T* qkv, const T* wq,
                    const T* wk, const float* rstd, T* out) {
  const int64_t size = shape.head_size, width = shape.width(), norms = shape.norms();
  const Vec offset = WeightOffset(shape.plus_one);
  ForBlocks(context, shape.rows, RowsPerTask(width), [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < norms; ++head) {
        const int64_t at = row * width + head * size;
        RmsScaleRow(size, offset, rstd[row * norms + head], qkv + at, head < shape.heads ? wq : wk,
                    out + at);
      }
      CopyValues(shape, qkv + row * width, out + row * width);
    }
  });
}

int64_t HeadNormBackwardWorkspaceBytes(const HeadNormShape& shape) {
  return ColumnSumsBytes(shape.rows, 2 * shape.head_size);
}

template <typename T>
void HeadNormBackward(const Context& context, const HeadNormShape& shape, const T* dout,
                      const T* qkv, const T* wq, const T* wk, const float* rstd, T* dqkv,
                      float* dwq, float* dwk, void* workspace) {
  const int64_t size = shape.head_size, width = shape.width(), norms = shape.norms();
  const Vec offset = WeightOffset(shape.plus_one);
  float* all_sums = dwq == nullptr ? nullptr : static_cast<float*>(workspace);  // [blocks, 2, D]
  ForBlocks(context, shape.rows, kGradientRows, [=](int64_t begin, int64_t end) {
    float* sums = nullptr;
    if (all_sums != nullptr) {
      sums = all_sums + begin / kGradientRows * 2 * size;
      std::fill(sums, sums + 2 * size, 0.0f);
    }
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t head = 0; head < norms; ++head) {
        const int64_t at = row * width + head * size;
        const bool query = head < shape.heads;
        float* const sum = sums == nullptr || query ? sums : sums + size;
        RmsBackwardRow(size, offset, dout + at, qkv + at, query ? wq : wk, rstd[row * norms + head],
                       false, dqkv + at, sum);
      }
      CopyValues(shape, dout + row * width, dqkv + row * width);
    }
  });
  if (all_sums == nullptr) return;
  const int64_t blocks = CeilDiv(shape.rows, kGradientRows);
  CombineBlocks(context, blocks, size, 2 * size, all_sums, dwq);
  CombineBlocks(context, blocks, size, 2 * size, all_sums + size, dwk);
}

}  // namespace strata::kernels::STRATA_ISA

namespace strata::kernels {

STRATA_KERNEL(void, HeadNormForward, const Context&, const HeadNormShape&, float, const T*,
              const T*, const T*, T*, float*)
STRATA_KERNEL(void, HeadNormReplay, const Context&, const HeadNormShape&, const T*, const T*,
              const T*, const float*, T*)
STRATA_KERNEL(void, HeadNormBackward, const Context&, const HeadNormShape&, const T*, const T*,
              const T*, const T*, const float*, T*, float*, float*, void*)
STRATA_PLAIN_KERNEL(int64_t, HeadNormBackwardWorkspaceBytes, const HeadNormShape&)

}  // namespace strata::kernels
