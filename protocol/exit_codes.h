// What Strata's programs end with, and what the end of a task carries to them (CLI.md).
#ifndef STRATA_PROTOCOL_EXIT_CODES_H_
#define STRATA_PROTOCOL_EXIT_CODES_H_

namespace strata::protocol {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;      // the command or the job failed
inline constexpr int kExitUsage = 2;       // usage, or an invalid file
inline constexpr int kExitInfeasible = 3;  // does not fit, cannot be placed
inline constexpr int kExitNotAllowed = 4;
inline constexpr int kExitNotFound = 5;
inline constexpr int kExitUnavailable = 6;  // no answer, or timed out
inline constexpr int kExitInterrupted = 130;

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_EXIT_CODES_H_
