#include "protocol/predicted_memory.h"

#include <algorithm>

namespace strata::protocol {

const google::protobuf::RepeatedPtrField<v1::TierBytes>& PredictedOf(const v1::JobPlan& plan,
                                                                     int rank) {
  if (plan.stages().empty()) return plan.predicted();
  const int64_t stage = rank / std::max<int64_t>(1, plan.stage_stride()) % plan.stages_size();
  return plan.stages(static_cast<int>(stage)).predicted();
}

}  // namespace strata::protocol
