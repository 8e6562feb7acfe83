// Tells how far the preparation of token files is.
#ifndef STRATA_CLIENT_PREPARE_TELLER_H_
#define STRATA_CLIENT_PREPARE_TELLER_H_

#include <cstdint>
#include <limits>

#include "client/terminal/terminal.h"
#include "common/clock.h"
#include "data/prepare/prepare.h"

namespace strata::client {

// A line that is rewritten, or where that cannot be, one every ten seconds.
class PrepareTeller {
 public:
  PrepareTeller(Terminal& terminal, const common::Clock& clock)
      : terminal_(terminal), clock_(clock), begun_(clock.Now()), told_(clock.Now()) {}

  void Tell(const data::PrepareProgress& progress);

 private:
  Terminal& terminal_;
  const common::Clock& clock_;
  const double begun_;
  double told_;
  // Where an earlier call had come to: what the speed counts from.
  int64_t first_ = std::numeric_limits<int64_t>::max();
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_PREPARE_TELLER_H_
