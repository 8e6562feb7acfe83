// Whether what is asked of GPUs runs on Strata's stand-in of CUDA.
#ifndef STRATA_COMMON_GPU_STANDIN_H_
#define STRATA_COMMON_GPU_STANDIN_H_

#include <cstdlib>

namespace strata::common {

// Of this process and of trainers that it starts, which get the variable: docs/gpu.md.
inline bool UsesGpuStandin() { return std::getenv("STRATA_GPU_STANDIN") != nullptr; }

}  // namespace strata::common

#endif  // STRATA_COMMON_GPU_STANDIN_H_
