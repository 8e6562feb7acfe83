// What the control plane is to hold, measured one after the other.
#ifndef STRATA_TESTS_BENCH_CONTRACT_H_
#define STRATA_TESTS_BENCH_CONTRACT_H_

#include <functional>

#include "nlohmann/json.hpp"
#include "tests/bench/control_flags.h"

namespace strata::bench {

// Prints one table: each aim, what was measured, on which load of the machine. `measure`: what
// control_bench reports with such flags; null: it failed. `base`: the program and the directory.
// False: something was lost or failed; an aim that was missed is told in the table alone.
bool PrintContract(const Flags& base, const std::function<nlohmann::json(const Flags&)>& measure);

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_CONTRACT_H_
