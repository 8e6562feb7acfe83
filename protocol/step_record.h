// A step record as a line of metrics.jsonl: agents write them, the controller reads them back, and
// clients print them (CLI.md, "Step records").
#ifndef STRATA_PROTOCOL_STEP_RECORD_H_
#define STRATA_PROTOCOL_STEP_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::protocol {

// One JSON object and a newline. Numbers carry as many digits as read back to the same bits; those
// that JSON cannot write (a loss that is not finite) are null.
std::string StepLine(const v1::StepRecord& record);

// Back again; nothing when the line is none. Numbers that are null are NaN. Files come from
// outside: nothing in them is trusted.
std::optional<v1::StepRecord> ParseStepLine(absl::string_view line);

// The step of such a line; nothing when it is no complete record.
std::optional<int64_t> StepOfLine(absl::string_view line);

// Its epoch, likewise.
std::optional<int64_t> EpochOfLine(absl::string_view line);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_STEP_RECORD_H_
