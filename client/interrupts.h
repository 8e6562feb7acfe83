// Ctrl-C while a command follows something: the first asks it to come to an end, the second ends
// the program at once.
#ifndef STRATA_CLIENT_INTERRUPTS_H_
#define STRATA_CLIENT_INTERRUPTS_H_

#include <signal.h>

namespace strata::client {

// Catches SIGINT, SIGTERM and, unless it is ignored, SIGHUP while it lives; one at a time in a
// process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // Whether one has come. A second one ends the process with exit code 130.
  bool interrupted() const;

 private:
  struct sigaction int_before_;
  struct sigaction term_before_;
  struct sigaction hangup_before_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_INTERRUPTS_H_
