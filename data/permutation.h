// A keyed pseudo-random permutation of [0, size), computed element by element without a table.
//
// A balanced Feistel network (Luby and Rackoff, "How to construct pseudorandom permutations from
// pseudorandom functions", SIAM J. Comput. 1988) over the smallest even number of bits that holds
// size - 1, with Philox as round function; values beyond the domain are permuted again until they
// fall inside ("cycle walking", Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA
// 2002): fewer than four evaluations on average.
#ifndef STRATA_DATA_PERMUTATION_H_
#define STRATA_DATA_PERMUTATION_H_

#include <cstdint>

namespace strata::data {

class Permutation {
 public:
  // 1 <= size < 2^62.
  Permutation(int64_t size, uint64_t key);
  // The image of `index`, 0 <= index < size.
  int64_t At(int64_t index) const;

 private:
  uint64_t Once(uint64_t value) const;

  uint64_t size_;
  uint64_t key_;
  int half_bits_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_PERMUTATION_H_
