// Random programs for property tests: right when executed in list order, otherwise arbitrary. Never
// executed; ops' kinds mean nothing.
#ifndef STRATA_PROGRAM_TESTING_RANDOM_PROGRAM_H_
#define STRATA_PROGRAM_TESTING_RANDOM_PROGRAM_H_

#include <cstdint>

#include "common/rng.h"
#include "program/ir/program.h"

namespace strata::program {

// A row of random numbers named by a seed, the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : seed_(seed) {}
  int operator()(int sides) {
    return static_cast<int>(common::MixBits(seed_, next_++) % static_cast<uint64_t>(sides));
  }
  bool OneIn(int sides) { return (*this)(sides) == 0; }

 private:
  const uint64_t seed_;
  uint64_t next_ = 0;
};

// A set with one program, "train", not laid out, for 1, 2 or 4 data ranks: calls of one to four ops
// on several streams with locals, collectives, transfers and signals on four streams; transient,
// persistent and versioned slots in two tiers; accesses to whole slots, parts and ranks' own parts;
// partial sums; updates in one or two pieces, predicated or not; some dependencies given. Every
// range is a multiple of 8 bytes.
ProgramSet RandomProgram(uint64_t seed);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_TESTING_RANDOM_PROGRAM_H_
