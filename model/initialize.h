// Initial values of parameters. An element is a function of the seed, of the name of the logical
// tensor that users see (a part of a fused one) and of its index in that whole tensor: neither
// fusing nor cutting nor sharding nor padding changes it.
#ifndef STRATA_MODEL_INITIALIZE_H_
#define STRATA_MODEL_INITIALIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "program/ir/parameter_set.h"

namespace strata::model {

// `count` elements from `begin` of a set's flat layout on. kNormal: element i is value ×
// common::NormalAt(key, first + i). kUniform: value ×
// common::SymmetricAt(key, first + i). kConstant: all are value (padding: 0).
struct InitialPiece {
  int64_t begin = 0;
  int64_t count = 0;
  program::Initializer initializer;
  uint64_t key = 0;
  int64_t first = 0;
};

// The key of a logical tensor's series.
uint64_t InitialKey(uint64_t seed, const std::string& tensor);

// What [begin, end) of the set's flat layout consists of, ascending and without gaps, on the rank
// with this index in the groups that its tensors are cut over.
std::vector<InitialPiece> InitialPieces(const program::ParameterSet& set, uint64_t seed,
                                        int64_t begin, int64_t end, int64_t cut_index = 0);

// values[i] becomes element begin + i of the set's flat layout.
void FillInitial(const program::ParameterSet& set, uint64_t seed, int64_t begin,
                 absl::Span<float> values, int64_t cut_index = 0);

}  // namespace strata::model

#endif  // STRATA_MODEL_INITIALIZE_H_
