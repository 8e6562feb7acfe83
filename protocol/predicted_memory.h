// What a plan says of one rank's memory.
#ifndef STRATA_PROTOCOL_PREDICTED_MEMORY_H_
#define STRATA_PROTOCOL_PREDICTED_MEMORY_H_

#include "proto/strata/v1/trainer.pb.h"

namespace strata::protocol {

// The arenas of the rank's stage; where the plan has no stages, those of every rank.
const google::protobuf::RepeatedPtrField<v1::TierBytes>& PredictedOf(const v1::JobPlan& plan,
                                                                     int rank);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_PREDICTED_MEMORY_H_
