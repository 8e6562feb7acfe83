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
// that JSON cannot write (a loss that is not finite) are null. `job_uid`: whose it is, of a job of
// a cluster; empty: it is not said.
std::string StepLine(const v1::StepRecord& record, const std::string& job_uid);

// Back again; nothing when the line is none or another job's. Numbers that are null are NaN. Files
// come from outside: nothing in them is trusted.
std::optional<v1::StepRecord> ParseStepLine(absl::string_view line, const std::string& job_uid);

// The step of such a line; nothing when it is no complete record.
std::optional<int64_t> StepOfLine(absl::string_view line);

// Its epoch, likewise; nothing when it is another job's (agents of an earlier release said no job).
std::optional<int64_t> EpochOfLine(absl::string_view line, const std::string& job_uid);

}  // namespace strata::protocol

#endif  // STRATA_PROTOCOL_STEP_RECORD_H_
