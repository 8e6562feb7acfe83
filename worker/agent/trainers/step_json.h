// A step record as a line of metrics.jsonl.
#ifndef STRATA_WORKER_AGENT_TRAINERS_STEP_JSON_H_
#define STRATA_WORKER_AGENT_TRAINERS_STEP_JSON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::worker {

// One JSON object and a newline. Numbers carry as many digits as read back to the same bits; those
// that JSON cannot write (a loss that is not finite) are null.
std::string StepLine(const v1::StepRecord& record);

// The step of such a line; nothing when it is no complete record.
std::optional<int64_t> StepOfLine(absl::string_view line);

// Its epoch, likewise.
std::optional<int64_t> EpochOfLine(absl::string_view line);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_TRAINERS_STEP_JSON_H_
