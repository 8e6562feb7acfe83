// How many layers are resident where only a limit of the device's arena is given.
#ifndef STRATA_PROGRAM_COMPOSE_WITHIN_LIMIT_H_
#define STRATA_PROGRAM_COMPOSE_WITHIN_LIMIT_H_

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "program/compose/plan.h"

namespace strata::program {

// Programs (StagePrograms, DecodePrograms) built with as many resident layers of `layers` as the
// limit allows, but one less than all (which the device would hold as well without streaming);
// where it does not allow one, with what a single use needs.
template <typename Programs>
absl::StatusOr<Programs> WithinLimit(
    int64_t limit, int layers, const std::function<absl::StatusOr<Programs>(int resident)>& build) {
  const auto fits = [&](const absl::StatusOr<Programs>& made) {
    return made.ok() && made->set.arena_bytes[static_cast<int>(Tier::kDevice)] <= limit;
  };
  absl::StatusOr<Programs> best = build(Streaming::kAllButOne);
  if (!best.ok() || fits(best)) return best;
  best = build(1);
  if (!best.ok()) return best;
  if (!fits(best)) return build(Streaming::kOneUse);
  int least = 1, most = layers;
  while (most - least > 1) {
    const int middle = least + (most - least) / 2;
    absl::StatusOr<Programs> made = build(middle);
    if (fits(made)) {
      best = std::move(made);
      least = middle;
    } else {
      most = middle;
    }
  }
  return best;
}

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_WITHIN_LIMIT_H_
