#include "kernels/cpu/tiles_work.h"

#include "kernels/cpu/tile_product.h"
#include "kernels/isa.h"

namespace strata::kernels {

bool TilesWork() {
  static const bool work = UsesAvx512() && AmxWorks() && avx512::amx::AllowTiles();
  return work;
}

}  // namespace strata::kernels
