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

  // A new stream begins with the oldest lines again: skips as many as were printed of its past.
  void Reopen() { to_skip_ = lines_; }
  void Print(const v1::LogLine& line);
  int64_t lines() const { return lines_; }

 private:
  bool as_json_;
  Terminal& terminal_;
  int64_t lines_ = 0;
  int64_t to_skip_ = 0;
};

struct LogOptions {
  int32_t rank = -1;  // all
  bool follow = false;
  double give_up_seconds = 600;  // without an answer, when following
};

// Prints until the stream ends; with `follow`, opens it again while the controller is away. `go_on`
// is asked about ten times a second.
absl::Status ReadLogs(ApiClient& client, const std::string& name, const LogOptions& options,
                      LogPrinter& printer, const std::function<bool()>& go_on,
                      const common::Clock& clock);

}  // namespace strata::client

#endif  // STRATA_CLIENT_LOG_PRINTER_H_
