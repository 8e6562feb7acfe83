// The part of the verifier that looks at a program without following it.
#ifndef STRATA_PROGRAM_READERS_VERIFY_PLACES_H_
#define STRATA_PROGRAM_READERS_VERIFY_PLACES_H_

#include "absl/status/status.h"
#include "program/ir/program.h"

namespace strata::program {

// Refused: references to slots, templates, ops or instructions that do not exist or do not come
// before; slots without a place, misaligned or outside their tier's arena; persistent slots (every
// copy) that share bytes with each other or with a transient slot that the program uses;
// communication that a predicate may leave out. No reader
// may expand a program that this refuses.
absl::Status VerifyPlaces(const ProgramSet& set, const Program& program);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_VERIFY_PLACES_H_
