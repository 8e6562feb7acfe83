// Which of the addresses that came with the start a rank uses.
#ifndef STRATA_WORKER_TRAINER_PEER_ADDRESSES_H_
#define STRATA_WORKER_TRAINER_PEER_ADDRESSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// By rank, of `ranks` in the world: those of `rank` and of its `peers`, the others' empty, whoever
// else was told. InvalidArgument: ranks that cannot be; FailedPrecondition: a peer's is missing.
absl::StatusOr<std::vector<std::string>> PeerAddresses(const v1::StartRanks& start, int ranks,
                                                       int rank, absl::Span<const int> peers);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_PEER_ADDRESSES_H_
