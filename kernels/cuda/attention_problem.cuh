// What the attention kernels share: a problem, which keys its rows see, exponentials of scores.
#ifndef STRATA_KERNELS_CUDA_ATTENTION_PROBLEM_CUH_
#define STRATA_KERNELS_CUDA_ATTENTION_PROBLEM_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/attention.h"
#include "kernels/cuda/common.cuh"

namespace strata::kernels::cuda {

// Rows of queries over keys and values; whole sequences, parts and decoding are all such.
template <typename T>
struct AttentionProblem {
  int batch = 0;
  int rows = 0, keys = 0;  // of a sequence
  int heads = 0, kv_heads = 0, head_size = 0;
  // Row t sees keys [first, offset + t], where first is that of its document and of its window, in
  // which it stands at key lag + t.
  int offset = 0, lag = 0, window = 0;
  const int32_t* positions = nullptr;
  float scale = 0, softcap = 0;

  const T *q = nullptr, *k = nullptr, *v = nullptr;
  int64_t q_row = 0, q_batch = 0;    // from one row, or sequence, of q and dq to the next
  int64_t kv_row = 0, kv_batch = 0;  // of k, v, dk, dv
  int64_t out_batch = 0;             // of out and dout, whose rows are heads * head_size
  int64_t lse_rows = 0;              // from one head of lse, delta, and one sequence of positions

  // Of decoding, in device memory: rows that are real, and the position of the first (PlaceRows).
  const double *placed_rows = nullptr, *position = nullptr;

  // Forward.
  T* out = nullptr;
  float* lse = nullptr;  // null: nobody asks
  bool resumes = false;  // out and lse hold what other keys gave

  // Backward, which reads lse.
  const T* dout = nullptr;
  const float* delta = nullptr;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  bool adds_dq = false, adds_dkv = false;
  // The query heads of a group in `parts`, whose dk and dv are then sums of partials: [dk and dv,
  // parts, B, keys, K * D].
  int parts = 1;
  float* partials = nullptr;

  // Of decoding: takes what the device finds, rows, keys and what they see; the rest of a forward
  // is known not to be asked for.
  __device__ void PlaceRows() {
    const int from = static_cast<int>(*position);
    rows = max(0, min(min(rows, static_cast<int>(*placed_rows)), keys - from));
    keys = from + rows;
    offset = lag = from;
    positions = nullptr;
    lse = nullptr;
    resumes = false;
  }

  __device__ int group() const { return heads / kv_heads; }
  __device__ int64_t QueryAt(int sequence, int row, int head) const {
    return sequence * q_batch + row * q_row + head * head_size;
  }
  __device__ int64_t KeyAt(int sequence, int key, int kv_head) const {
    return sequence * kv_batch + key * kv_row + kv_head * head_size;
  }
  __device__ int64_t PartialAt(bool of_values, int part, int sequence, int key, int kv_head) const {
    const int64_t rows = (static_cast<int64_t>(of_values) * parts + part) * batch + sequence;
    return ((rows * keys + key) * kv_heads + kv_head) * head_size;
  }
  __device__ int64_t out_row() const { return static_cast<int64_t>(heads) * head_size; }
  __device__ int64_t OutAt(int sequence, int row, int head) const {
    return sequence * out_batch + row * out_row() + head * head_size;
  }
  __device__ int64_t LseAt(int sequence, int row, int head) const {
    return (static_cast<int64_t>(sequence) * heads + head) * lse_rows + row;
  }

  // The first and the last key that a row sees. Both grow with the row, since a document's rows
  // follow each other. Rows past the last one are seen as it.
  __device__ int FirstKey(int sequence, int row) const {
    row = min(row, rows - 1);
    int first = 0;
    if (positions != nullptr) {
      first = max(first, lag + row - positions[sequence * lse_rows + row]);
    }
    if (window > 0) {
      const int too_many = Planted(Mistake::kWindowOffByOne) ? 1 : 0;
      first = max(first, lag + row - window + 1 - too_many);
    }
    return first;
  }
  __device__ int LastKey(int row) const { return min(offset + min(row, rows - 1), keys - 1); }

  // Whether any, and whether each, of rows [row, row_end) sees any, or each, of keys [key,
  // key_end).
  __device__ bool AnySees(int sequence, int row, int row_end, int key, int key_end) const {
    return key <= LastKey(row_end - 1) && key_end > FirstKey(sequence, row);
  }
  __device__ bool AllSee(int sequence, int row, int row_end, int key, int key_end) const {
    return key_end - 1 <= LastKey(row) && key >= FirstKey(sequence, row_end - 1);
  }

  // The rows that see any of keys [key, key_end): from the first on, the others behind it.
  __device__ int FirstRow(int key) const { return max(0, key - offset); }
  __device__ int EndOfRows(int sequence, int key_end) const {  // by a whole warp
    if (positions == nullptr) {
      return window > 0 ? min(rows, key_end - 1 - lag + window) : rows;
    }
    // By 32 rows: documents are short where there are many.
    const int lane = threadIdx.x % 32;
    int end = max(0, key_end - 1 - offset);
    for (int row = end; row < rows; row += 32) {
      const bool sees = row + lane < rows && FirstKey(sequence, row + lane) < key_end;
      const unsigned votes = __ballot_sync(~0u, sees);
      end = row + 32 - __clz(votes);
      if (votes != ~0u) break;
    }
    return min(end, rows);
  }
};

// Which tile of which head a block has. Blocks that start together have the same tile of all heads,
// first the tile with most to do: of queries the last, of keys the first.
struct BlockPlace {
  int tile, head, sequence;

  __device__ BlockPlace(int heads, bool of_keys)
      : tile(of_keys ? blockIdx.x / heads : (gridDim.x - 1 - blockIdx.x) / heads),
        head(blockIdx.x % heads),
        sequence(blockIdx.y) {}
};
inline dim3 GridOf(int heads, int rows, int tile_rows, int batch) {
  return dim3(BlocksFor(rows, tile_rows) * heads, batch);
}

inline constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.69314718055994531f;

// Of a row that has seen no key. Not infinite: the difference of two infinities is no number.
inline constexpr float kNoneSeen = -1e30f;

__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A product of a query and a key becomes a level, which is itself or its softcap's tanh; a level
// times `factor` is a score in units of ln 2.
struct Levels {
  float inner, factor;
  bool capped;

  template <typename T>
  __device__ explicit Levels(const AttentionProblem<T>& problem)
      : inner(problem.softcap > 0 ? 2 * kLog2E * problem.scale / problem.softcap : 0),
        factor((problem.softcap > 0 ? problem.softcap : problem.scale) * kLog2E),
        capped(problem.softcap > 0) {}

  // tanh(y) = 1 - 2 / (1 + e^2y): to 1e-7, which is what a score needs.
  __device__ float operator()(float product) const {
    return capped ? 1 - __fdividef(2.f, 1 + Exp2(product * inner)) : product;
  }
  // Of a score by its product, without the scale.
  __device__ float Slope(float level) const { return capped ? 1 - level * level : 1; }
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_ATTENTION_PROBLEM_CUH_
