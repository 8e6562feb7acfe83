// Which sequences of messages a controller and an agent have in common (ProtocolRange).
#ifndef STRATA_PROTOCOL_VERSIONS_H_
#define STRATA_PROTOCOL_VERSIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "proto/strata/v1/agent.pb.h"

namespace strata::protocol {

// 1: what agents of before there were ranges speak; 2: messages in parts, jobs by their uids;
// 3: a start with the addresses of some ranks (StartEpoch.ranks).
inline constexpr int kLeast = 1, kGreatest = 3;
inline constexpr int kFirstWithParts = 2;
inline constexpr int kFirstWithSomeAddresses = 3;

v1::ProtocolRange OwnRange();

// The greatest that this program (`ours`) and its peer both know; a range that is absent is 1.
// `peer` names it in the error. FailedPrecondition: they have none in common.
absl::StatusOr<int> CommonVersion(const v1::ProtocolRange& theirs, const std::string& peer,
                                  const v1::ProtocolRange& ours = OwnRange());

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_VERSIONS_H_
