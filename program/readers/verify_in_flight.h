// The part of the verifier that counts what waits for its backward.
#ifndef STRATA_PROGRAM_READERS_VERIFY_IN_FLIGHT_H_
#define STRATA_PROGRAM_READERS_VERIFY_IN_FLIGHT_H_

#include "absl/status/status.h"
#include "program/ir/program.h"

namespace strata::program {

// Most passes (Slot::pass) that the program keeps something of at once: each from the first call
// that uses what is kept of it to the last instruction that does, in list order, which is the order
// of a stage's calls.
int MostInFlight(const ProgramSet& set, const Program& program);

// Refused, where the program has a bound (Program::most_in_flight): more passes in flight; a value
// saved for a backward that counts for no pass, or values of different passes in one call. Needs
// VerifyPlaces.
absl::Status VerifyInFlight(const ProgramSet& set, const Program& program);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_VERIFY_IN_FLIGHT_H_
