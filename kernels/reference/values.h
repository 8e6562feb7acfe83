// References: what each kernel computes, in double precision and in the plainest way, from the
// formula alone. The tests of every backend compare with them; nothing else uses them.
#ifndef STRATA_KERNELS_REFERENCE_VALUES_H_
#define STRATA_KERNELS_REFERENCE_VALUES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::kernels::reference {

using Doubles = std::vector<double>;
using Tokens = std::vector<int32_t>;

}  // namespace strata::kernels::reference

#endif  // STRATA_KERNELS_REFERENCE_VALUES_H_
