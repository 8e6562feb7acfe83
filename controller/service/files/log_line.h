// Lines of log.jsonl. Each says whose it is: a folder may have been another job's, whose lines are
// not for those who see this one.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_LOG_LINE_H_
#define STRATA_CONTROLLER_SERVICE_FILES_LOG_LINE_H_

#include <optional>
#include <string>

#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// {"number": its cursor, "job_uid": "…", "time": seconds since 1970, "epoch": 1, "rank": 0, "text":
// "…"} and a newline; and back, if it is of that job. Files come from outside: nothing in them is
// trusted.
std::string WriteLogLine(const v1::LogLine& line, const std::string& job_uid);
std::optional<v1::LogLine> ParseLogLine(const std::string& line, const std::string& job_uid);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_LOG_LINE_H_
