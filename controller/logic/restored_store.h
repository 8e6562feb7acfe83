// A store that was put back from a backup: what is changed in it before its first start.
//
// Since the backup the cluster has gone on: its agents know later terms, its clients later
// versions, its jobs have later epochs and checkpoints. So the store begins another life (an
// incarnation, which names those before it), and terms, versions and epochs jump over all that may
// have been.
#ifndef STRATA_CONTROLLER_LOGIC_RESTORED_STORE_H_
#define STRATA_CONTROLLER_LOGIC_RESTORED_STORE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "common/entropy.h"
#include "controller/logic/effects.h"

namespace strata::controller {

// More than a cluster counts between a backup and its loss.
inline constexpr int64_t kRestoredTerms = 1'000'000;
inline constexpr int64_t kRestoredVersions = 1'000'000'000;
inline constexpr int64_t kRestoredEpochs = 1'000'000;

// What is to be written, all at once. Pure but for the bits drawn. DataLoss: records that cannot be
// read; see Core::Load.
absl::StatusOr<std::vector<Write>> AfterRestore(const std::vector<Write>& records,
                                                const common::Entropy& entropy);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_RESTORED_STORE_H_
