// "Did you mean": the nearest of some words to one that was misspelt.
#ifndef STRATA_SPEC_SUGGEST_H_
#define STRATA_SPEC_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace strata::spec {

// Insertions, deletions, substitutions and swaps of neighbours that lead from `a` to `b` (optimal
// string alignment: Damerau, CACM 7(3), 1964). Words longer than 64 bytes count as their first 64.
int EditDistance(absl::string_view a, absl::string_view b);

// Whether `distance` is small enough that a word of this length is likely a misspelling: a third of
// it, at least 1.
bool IsNear(int distance, absl::string_view word);

// The nearest candidate (the first of equals), empty when none is near.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace strata::spec

#endif  // STRATA_SPEC_SUGGEST_H_
