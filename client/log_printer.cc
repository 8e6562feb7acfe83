#include "client/log_printer.h"

#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/views/structured.h"

namespace strata::client {

void LogPrinter::Print(const v1::LogLine& line) {
  if (to_skip_ > 0) {
    --to_skip_;
    return;
  }
  ++lines_;
  if (as_json_) {
    return terminal_.Out(ToJsonLine({{"time", TimeText(line.time())},
                                     {"epoch", line.epoch()},
                                     {"rank", line.rank()},
                                     {"text", line.text()}}));
  }
  const std::string who = line.rank() >= 0 ? absl::StrCat("[rank ", line.rank(), "] ") : "";
  terminal_.Out(absl::StrCat(who, line.text(), absl::EndsWith(line.text(), "\n") ? "" : "\n"));
}

absl::Status ReadLogs(ApiClient& client, const std::string& name, const LogOptions& options,
                      LogPrinter& printer, const std::function<bool()>& go_on,
                      const common::Clock& clock) {
  constexpr double kTick = 0.1;
  constexpr double kPause = 0.5;
  constexpr double kConnected = 5;
  using Event = Stream<v1::LogLine>::Event;
  double lost_at = clock.Now();
  bool heard = false;
  while (true) {
    const auto stream = client.StreamLogs(name, options.rank, options.follow);
    const double opened_at = clock.Now();
    v1::LogLine line;
    Event event = Event::kIdle;
    while (event != Event::kEnd) {
      if (!go_on()) return absl::CancelledError("no longer followed");
      event = stream->Next(kTick, &line);
      if (event == Event::kMessage) printer.Print(line);
      heard |= event == Event::kMessage;
      // A stream that lives this long is connected, even when nothing is written.
      if (event == Event::kMessage || clock.Now() - opened_at > kConnected) lost_at = clock.Now();
    }
    const absl::Status& status = stream->status();
    const bool again = absl::IsUnavailable(status) && options.follow && heard &&
                       clock.Now() - lost_at < options.give_up_seconds;
    if (!again) return status;
    printer.Reopen();
    for (double left = kPause; left > 0 && go_on(); left -= kTick) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kTick));
    }
  }
}

}  // namespace strata::client
