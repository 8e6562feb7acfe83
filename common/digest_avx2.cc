// Compiled with -mavx2: nothing here but the header's static functions, which stay in this file.
#define XXH_INLINE_ALL
#include "common/digest_avx2.h"

#include <xxhash.h>

namespace strata::common {

void UpdateByAvx2(void* state, const void* bytes, size_t size) {
  XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace strata::common
