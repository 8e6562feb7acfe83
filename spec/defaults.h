// Fills in what a job file left out (CLI.md, "Defaults").
#ifndef STRATA_SPEC_DEFAULTS_H_
#define STRATA_SPEC_DEFAULTS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::spec {

// A default that cannot be worked out (head_size when heads does not divide hidden) stays unset; so
// do the fields that job.proto says have no default.
void ApplyDefaults(absl::string_view default_name, strata::v1::JobSpec& job);

// Of the section alone.
void MemoryDefaults(strata::v1::MemorySpec& memory);

// Where places are left to be decided (`memory: auto`, or, beside limits, `place: auto`):
// everything is on the device.
void ClosePlaces(strata::v1::JobSpec& job);

// The job's name when it gives none: its file's name without folder and ending, other characters
// than [A-Za-z0-9._-] replaced by '-'; "job" when nothing is left.
std::string NameFromFile(absl::string_view file);

// parallel's degrees multiplied; at least 1.
int64_t RanksOf(const strata::v1::ParallelSpec& parallel);

}  // namespace strata::spec

#endif  // STRATA_SPEC_DEFAULTS_H_
