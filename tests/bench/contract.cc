#include "tests/bench/contract.h"

#include <stdlib.h>

#include <cstdio>
#include <utility>

namespace strata::bench {
namespace {

constexpr int kSessions = 12500;

struct Parts {
  nlohmann::json submits, sessions, restart, plain, tls;
};

// Whether nothing failed and nothing that was acknowledged was lost; says what did.
bool Sound(const char* what, const nlohmann::json& part) {
  if (!part.is_null() && part.at("sound").get<bool>()) return true;
  std::fprintf(stderr, "control_bench: %s failed, or lost what it had acknowledged\n", what);
  if (part.is_null()) return false;
  for (const auto& [message, count] : part.at("failures").items()) {
    std::fprintf(stderr, "  %d times: %s\n", count.get<int>(), message.c_str());
  }
  for (const char* key : {"agents_welcomed", "sessions_lost", "acknowledged_missing_after_kill",
                          "term_seconds", "restart"}) {
    if (part.contains(key)) {
      std::fprintf(stderr, "  %s: %s\n", key, part.at(key).dump().c_str());
    }
  }
  return false;
}

Parts MeasureParts(const Flags& base, const std::function<nlohmann::json(const Flags&)>& measure) {
  const auto with = [&](const char* what, auto set) {
    std::fprintf(stderr, "control_bench: %s …\n", what);
    Flags flags = base;
    set(flags);
    return measure(flags);
  };
  Parts parts;
  parts.submits = with("submits", [](Flags& flags) {
    flags.idle = 1;
    flags.seconds = 10;
    flags.jobs_per_client = 100;  // a controller keeps 10,000 jobs in all
    flags.fill = 1000;
  });
  parts.sessions = with("12,500 sessions", [](Flags& flags) {
    flags.agents = kSessions;
    flags.devices = flags.idle = 8;
    flags.clients = 4;
    flags.seconds = 2;
    flags.fill = 20;
  });
  const auto small = [](Flags& flags) {
    flags.agents = 50;
    flags.idle = flags.seconds = 1;
    flags.clients = 4;
    flags.fill = 20;
  };
  parts.restart = with("the restart of 16,384 ranks", [&](Flags& flags) {
    small(flags);
    flags.restart_nodes = 2048;
  });
  for (const bool tls : {false, true}) {
    (tls ? parts.tls : parts.plain) = with(tls ? "with TLS" : "without TLS", [&](Flags& flags) {
      flags.agents = 1000;
      flags.idle = flags.seconds = 5;
      flags.clients = 16;
      flags.fill = 100;
      flags.jobs_per_client = 500;
      flags.restart_nodes = 256;
      flags.tls = tls;
    });
  }
  return parts;
}

void Row(const char* what, double measured, const char* unit, double aim, bool at_most = true) {
  const bool reached = at_most ? measured <= aim : measured >= aim;
  std::printf("%-62s %10.2f %-5s %s %6.1f  %s\n", what, measured, unit, at_most ? "<=" : ">=", aim,
              reached ? "reached" : "MISSED");
}

}  // namespace

bool PrintContract(const Flags& base, const std::function<nlohmann::json(const Flags&)>& measure) {
  double load[2] = {};
  getloadavg(load, 1);
  const Parts parts = MeasureParts(base, measure);
  bool sound = true;
  for (const auto& [what, part] : {std::pair{"submits", &parts.submits},
                                   {"12,500 sessions", &parts.sessions},
                                   {"the restart of 16,384 ranks", &parts.restart},
                                   {"without TLS", &parts.plain},
                                   {"with TLS", &parts.tls}}) {
    sound = Sound(what, *part) && sound;
  }
  if (!sound) return false;
  getloadavg(load + 1, 1);
  const auto of = [](const nlohmann::json& part, const char* key) {
    return part.at(key).get<double>();
  };
  const nlohmann::json& restart = parts.restart["restart"];
  std::printf("load of the machine: %.1f before, %.1f at the end\n\n", load[0], load[1]);
  Row("restart of 2,048 nodes x 8 ranks, controller's processor", of(restart, "processor_seconds"),
      "s", 2);
  Row("durable submits", of(parts.submits, "submits_per_second"), "/s", 1000, /*at_most=*/false);
  Row("  their p99", of(parts.submits, "submit_p99_ms"), "ms", 100);
  Row("12,500 sessions with a heartbeat per second",
      1e-6 * kSessions * of(parts.sessions, "heartbeat_processor_us"), "cores", 1);
  Row("longest call through the writer beside lists of 12,500 nodes",
      of(parts.sessions, "call_beside_lists_max_ms"), "ms", 50);
  const auto ratio = [&](const char* key) { return of(parts.tls, key) / of(parts.plain, key); };
  Row("TLS: processor time of a heartbeat, ratio", ratio("heartbeat_processor_us"), "", 1.5);
  Row("TLS: processor time of a change (submit, cancel), ratio", ratio("processor_us_per_change"),
      "", 1.5);
  Row("TLS: processor time of the restart of 2,048 ranks, ratio",
      of(parts.tls["restart"], "processor_seconds") /
          of(parts.plain["restart"], "processor_seconds"),
      "", 1.5);
  std::printf(
      "\nmissing after kill -9: 0; sessions lost: 0; START to a node of 8 ranks: %.0f KiB\n",
      of(restart, "start_bytes") / 1024);
  return true;
}

}  // namespace strata::bench
