#include "client/interrupts.h"

#include <unistd.h>

#include <atomic>

#include "client/exit_codes.h"

namespace strata::client {
namespace {

std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler uses it

void OnInterrupt(int) {
  if (++interrupts > 1) _exit(kExitInterrupted);
}

}  // namespace

InterruptScope::InterruptScope() {
  interrupts = 0;
  struct sigaction caught = {};
  caught.sa_handler = OnInterrupt;
  caught.sa_flags = SA_RESTART;
  sigaction(SIGINT, &caught, &int_before_);
  sigaction(SIGTERM, &caught, &term_before_);
  sigaction(SIGHUP, nullptr, &hangup_before_);
  if (hangup_before_.sa_handler != SIG_IGN) sigaction(SIGHUP, &caught, nullptr);  // else: nohup
}

InterruptScope::~InterruptScope() {
  sigaction(SIGINT, &int_before_, nullptr);
  sigaction(SIGTERM, &term_before_, nullptr);
  sigaction(SIGHUP, &hangup_before_, nullptr);
}

bool InterruptScope::interrupted() const { return interrupts > 0; }

}  // namespace strata::client
