// A job's log lines on stdout, each once, also when the stream had to be opened anew.
#ifndef STRATA_CLIENT_LOG_PRINTER_H_
#define STRATA_CLIENT_LOG_PRINTER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/api/api_client.h"
#include "client/terminal/terminal.h"
#include "common/clock.h"

namespace strata::client {

class LogPrinter {
 public:
  LogPrinter(bool as_json, Terminal& terminal) : as_json_(as_json), terminal_(terminal) {}

  void Print(const v1::LogLine& line);
  // What follows the last line is gone.
  void TellGap();
  int64_t lines() const { return lines_; }

 private:
  bool as_json_;
  Terminal& terminal_;
  int64_t lines_ = 0;
};

struct LogOptions {
  v1::StreamLogsRequest request;  // its cursor is where to begin
  double give_up_seconds = 600;   // without an answer, when following
};

// Prints until the stream ends; a stream that breaks or was read too slowly is opened again behind
// the last line, so that none is missing or told twice. `go_on` is asked about ten times a second.
absl::Status ReadLogs(ApiClient& client, LogOptions options, LogPrinter& printer,
                      const std::function<bool()>& go_on, const common::Clock& clock);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOG_PRINTER_H_
