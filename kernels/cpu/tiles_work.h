#ifndef STRATA_KERNELS_CPU_TILES_WORK_H_
#define STRATA_KERNELS_CPU_TILES_WORK_H_

namespace strata::kernels {

// Products by AMX tiles (kernels/cpu/tile_product.h) may be used: the CPU's work, and the system
// lets the process have them.
bool TilesWork();

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_TILES_WORK_H_
