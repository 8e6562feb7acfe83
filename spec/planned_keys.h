// Keys of job files that are documented and do nothing yet: refused as such, not as misspelt.
#ifndef STRATA_SPEC_PLANNED_KEYS_H_
#define STRATA_SPEC_PLANNED_KEYS_H_

#include "absl/strings/string_view.h"

namespace strata::spec {

// What to write in place of the key at `path` of a job file (`train.epochs`); empty when it is no
// planned key.
absl::string_view InsteadOfPlannedKey(absl::string_view path);

}  // namespace strata::spec

#endif  // STRATA_SPEC_PLANNED_KEYS_H_
