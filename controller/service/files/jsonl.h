// Lines of metrics.jsonl and log.jsonl.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_JSONL_H_
#define STRATA_CONTROLLER_SERVICE_FILES_JSONL_H_

#include <optional>
#include <string>

#include "proto/strata/v1/jobs.pb.h"
#include "proto/strata/v1/standalone.pb.h"

namespace strata::controller {

// A step record (CLI.md); nothing when the line is none. Numbers that JSON cannot write (null) are
// NaN. Files come from outside: nothing in them is trusted.
std::optional<v1::StepRecord> ParseStepLine(const std::string& line);

// {"time": seconds since 1970, "epoch": 1, "rank": 0, "text": "…"} and a newline; and back.
std::string WriteLogLine(const v1::LogLine& line);
std::optional<v1::LogLine> ParseLogLine(const std::string& line);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_JSONL_H_
