// Where the threads of another process stand, for whoever asks why it does not move.
#ifndef STRATA_WORKER_AGENT_MACHINE_PROCESS_STACK_H_
#define STRATA_WORKER_AGENT_MACHINE_PROCESS_STACK_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace strata::worker {

// What strata-worker's command line begins with to print a stack: "--stack-of PID".
inline constexpr char kStackOf[] = "--stack-of";

// A thread's name, then its frames, the innermost first; threads that stand alike are told once:
//
//   strata-trainer, 2 threads
//     poll (libc.so.6)
//     strata::collectives::UcxWorker::Sleep
//
// Stops the threads for as long as it looks (ptrace). A thread that storage holds (state D) cannot
// be stopped: this then waits for it. PermissionDenied: ptrace is not allowed here.
absl::StatusOr<std::string> DescribeStack(pid_t pid);

// The same by another process, which is ended when it has not answered within `seconds`: at most
// kMostStackBytes. `reader`: the program that it runs, strata-worker. What cannot be had is said in
// one line in parentheses; empty only where there is no reader.
std::string ReadStack(pid_t pid, const std::string& reader, double seconds);
inline constexpr size_t kMostStackBytes = 4 << 10;

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_PROCESS_STACK_H_
