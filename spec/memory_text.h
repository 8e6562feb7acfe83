// What `memory` of a job file says, as a text of its own: `{device: 2GiB, place: {parameters:
// host}}`.
#ifndef STRATA_SPEC_MEMORY_TEXT_H_
#define STRATA_SPEC_MEMORY_TEXT_H_

#include "absl/strings/string_view.h"
#include "proto/strata/v1/job.pb.h"
#include "spec/problems.h"

namespace strata::spec {

// With its defaults. Positions of problems are those in the text.
strata::v1::MemorySpec ReadMemory(absl::string_view text, Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_MEMORY_TEXT_H_
