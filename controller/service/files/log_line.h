// Lines of log.jsonl.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_LOG_LINE_H_
#define STRATA_CONTROLLER_SERVICE_FILES_LOG_LINE_H_

#include <optional>
#include <string>

#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// {"time": seconds since 1970, "epoch": 1, "rank": 0, "text": "…"} and a newline; and back.
std::string WriteLogLine(const v1::LogLine& line);
std::optional<v1::LogLine> ParseLogLine(const std::string& line);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_LOG_LINE_H_
