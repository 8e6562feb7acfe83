#include "client/log_printer.h"

#include <chrono>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/api/errors.h"
#include "client/views/structured.h"

namespace strata::client {

void LogPrinter::Print(const v1::LogLine& line) {
  ++lines_;
  if (as_json_) {
    return terminal_.Out(ToJsonLine({{"time", TimeText(line.time())},
                                     {"epoch", line.epoch()},
                                     {"rank", line.rank()},
                                     {"text", line.text()},
                                     {"cursor", line.cursor()}}));
  }
  const std::string who = line.rank() >= 0 ? absl::StrCat("[rank ", line.rank(), "] ") : "";
  terminal_.Out(absl::StrCat(who, line.text(), absl::EndsWith(line.text(), "\n") ? "" : "\n"));
}

void LogPrinter::TellGap() { terminal_.Say("(lines are missing here: they are no longer kept)"); }

absl::Status ReadLogs(ApiClient& client, LogOptions options, LogPrinter& printer,
                      const std::function<bool()>& go_on, const common::Clock& clock) {
  constexpr double kTick = 0.1;
  constexpr double kPause = 0.5;
  constexpr double kConnected = 5;
  using Event = Stream<v1::LogLine>::Event;
  double lost_at = clock.Now();
  bool heard = false;
  while (true) {
    const auto stream = client.StreamLogs(options.request);
    const double opened_at = clock.Now();
    v1::LogLine line;
    Event event = Event::kIdle;
    while (event != Event::kEnd) {
      if (!go_on()) return absl::CancelledError("no longer followed");
      event = stream->Next(kTick, &line);
      if (event == Event::kMessage) {
        printer.Print(line);
        if (!line.cursor().empty()) options.request.set_cursor(line.cursor());
        options.request.set_tail(0);  // what comes behind it is all wanted
      }
      heard |= event == Event::kMessage;
      // A stream that lives this long is connected, even when nothing is written.
      if (event == Event::kMessage || clock.Now() - opened_at > kConnected) lost_at = clock.Now();
    }
    const absl::Status& status = stream->status();
    const bool behind = absl::IsAborted(status);  // it reads more slowly than lines come
    const bool away = absl::IsUnavailable(status) && options.request.follow();
    const bool gap = ReasonOf(status) == "LINES_LOST" && options.request.follow();
    if (gap) {  // the oldest that is kept is newer than what was printed
      printer.TellGap();
      options.request.clear_cursor();
    }
    if (!heard || !(behind || away || gap) || clock.Now() - lost_at >= options.give_up_seconds) {
      return status;
    }
    for (double left = away ? kPause : 0; left > 0 && go_on(); left -= kTick) {
      std::this_thread::sleep_for(std::chrono::duration<double>(kTick));
    }
  }
}

}  // namespace strata::client
