// The inside of a product of bf16 by AMX: tiles of 16 rows of 64 bytes, two of a and two of b for
// four of c, after Intel's Optimization Reference Manual, "Intel AMX". Sums are f32, over pairs of
// k in ascending order; denormal numbers count as zero, as the instruction has it.
//
// A panel is 32 rows of op(a), or 32 columns of op(b), over a length of k, in blocks of kTileDepth:
// of each block the tile of the first sixteen, then that of the others. A tile of a has a row of 32
// consecutive k per row of op(a); one of b a row of pairs of k per pair, one pair per column.
// Ragged panels and blocks are filled up with zeros.
#ifndef STRATA_KERNELS_CPU_TILE_PRODUCT_H_
#define STRATA_KERNELS_CPU_TILE_PRODUCT_H_

#include <cstdint>

#include "kernels/number_types.h"

namespace strata::kernels::avx512::amx {

inline constexpr int64_t kPanel = 32;      // rows or columns
inline constexpr int64_t kTileDepth = 32;  // of k

// Numbers of a panel of length k.
inline constexpr int64_t PanelSize(int64_t k) {
  return (k + kTileDepth - 1) / kTileDepth * kTileDepth * kPanel;
}

// The first `count` rows of op(a), or columns of op(b), over k, panel after panel. `along_k`:
// stored rows, `ld` apart, have consecutive k; else consecutive rows of op(a), or columns of op(b).
void PackPanelsOfA(int64_t count, int64_t k, const BFloat16* from, int64_t ld, bool along_k,
                   BFloat16* to);
void PackPanelsOfB(int64_t count, int64_t k, const BFloat16* from, int64_t ld, bool along_k,
                   BFloat16* to);

// While one lives, its thread's tiles are shaped for Multiply; others' shape, which libraries
// keep in mind, comes back at the end.
class TileScope {
 public:
  TileScope();
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  alignas(64) uint8_t before_[64];
};

// What is needed soon, and fetched into the L2 cache meanwhile: the caches' own prefetching does
// not see tiles coming. Nothing where there are no lines.
struct Ahead {
  const void* lines = nullptr;  // consecutive ones, of 64 bytes
  int64_t count = 0;
  const void* rows = nullptr;  // 32, of 128 bytes each
  int64_t row_bytes = 0;       // apart
};

// sums[32, 32] become, or gain where `accumulate`, the product of two panels of length k: four
// tiles, one after the other. Within a TileScope.
void Multiply(int64_t k, const BFloat16* a, const BFloat16* b, float* sums, bool accumulate,
              const Ahead& ahead);

// c[rows, columns], rows and columns <= 32, of rows `ldc` apart, becomes, or gains where
// `accumulate`, Multiply's sums, rounded once.
void WriteSums(const float* sums, int64_t rows, int64_t columns, bool accumulate, float* c,
               int64_t ldc);
void WriteSums(const float* sums, int64_t rows, int64_t columns, bool accumulate, BFloat16* c,
               int64_t ldc);

// The process may use tiles from here on. False: the system refuses.
bool AllowTiles();

}  // namespace strata::kernels::avx512::amx

#endif  // STRATA_KERNELS_CPU_TILE_PRODUCT_H_
