// XXH3's loop for processors with AVX2: the library is built for the oldest x86-64, at half the
// speed.
#ifndef STRATA_COMMON_DIGEST_AVX2_H_
#define STRATA_COMMON_DIGEST_AVX2_H_

#include <cstddef>

namespace strata::common {

// XXH3_64bits_update and XXH3_128bits_update of `state`, an XXH3_state_t that the library made (the
// header names its own apart). Only where the processor has AVX2.
void UpdateByAvx2(void* state, const void* bytes, size_t size);

}  // namespace strata::common

#endif  // STRATA_COMMON_DIGEST_AVX2_H_
