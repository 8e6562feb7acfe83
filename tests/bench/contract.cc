#include "tests/bench/contract.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>

namespace strata::bench {
namespace {

constexpr int kSessions = 12500;
// With TLS: all come from one address, which a controller that knows its callers gives half of its
// files; 20,000 are common.
constexpr int kSessionsOfOneAddress = 8000;
constexpr double kTls = 1.5;  // what each aim may be missed by with TLS

struct Parts {
  nlohmann::json submits, sessions, restart;
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

Parts MeasureParts(const Flags& base, bool tls,
                   const std::function<nlohmann::json(const Flags&)>& measure) {
  const auto with = [&](const char* what, auto set) {
    std::fprintf(stderr, "control_bench: %s%s …\n", what, tls ? ", with TLS" : "");
    Flags flags = base;
    flags.tls = tls;
    set(flags);
    return measure(flags);
  };
  Parts parts;
  parts.submits = with("submits", [](Flags& flags) {
    flags.idle = 1;
    flags.seconds = 10;
    flags.clients = 32;
    flags.jobs_per_client = 200;  // a controller keeps 10,000 jobs in all
    flags.fill = 1000;
  });
  parts.sessions = with("sessions", [&](Flags& flags) {
    flags.agents = tls ? kSessionsOfOneAddress : kSessions;
    flags.devices = flags.idle = 8;
    flags.clients = 4;
    flags.seconds = 2;
    flags.fill = 20;
  });
  parts.restart = with("the restart of 16,384 ranks", [](Flags& flags) {
    flags.agents = 50;
    flags.idle = flags.seconds = 1;
    flags.clients = 4;
    flags.fill = 20;
    flags.restart_nodes = 2048;
  });
  return parts;
}

void Row(const char* what, double measured, const char* unit, double aim, bool at_most = true) {
  const bool reached = at_most ? measured <= aim : measured >= aim;
  std::printf("%-62s %10.2f %-5s %s %6.1f  %s\n", what, measured, unit, at_most ? "<=" : ">=", aim,
              reached ? "reached" : "MISSED");
}

void PrintRows(const Parts& parts, double times) {
  const auto of = [](const nlohmann::json& part, const char* key) {
    return part.at(key).get<double>();
  };
  Row("restart of 2,048 nodes x 8 ranks, controller's processor",
      of(parts.restart["restart"], "processor_seconds"), "s", 2 * times);
  Row("durable submits of 32 clients", of(parts.submits, "submits_per_second"), "/s", 1000 / times,
      /*at_most=*/false);
  Row("  their p99", of(parts.submits, "submit_p99_ms"), "ms", 100 * times);
  Row("12,500 sessions with a heartbeat per second",
      1e-6 * kSessions * of(parts.sessions, "heartbeat_processor_us"), "cores", times);
  // A heartbeat goes through the writer too. What is not due to the lists is there without them.
  const double alone = of(parts.sessions, "call_max_ms");
  const double beside = of(parts.sessions, "call_beside_lists_max_ms");
  Row("lists of all nodes: longest delay of a call that is written", std::max(0.0, beside - alone),
      "ms", 50 * times);
  std::printf(
      "  (longest call %.1f ms alone, %.1f beside them; p99 %.1f and %.1f; %.0f sessions here)\n",
      alone, beside, of(parts.sessions, "call_p99_ms"),
      of(parts.sessions, "call_beside_lists_p99_ms"), of(parts.sessions, "agents"));
}

}  // namespace

bool PrintContract(const Flags& base, const std::function<nlohmann::json(const Flags&)>& measure) {
  double load[2] = {};
  getloadavg(load, 1);
  const Parts plain = MeasureParts(base, /*tls=*/false, measure);
  const Parts tls = MeasureParts(base, /*tls=*/true, measure);
  getloadavg(load + 1, 1);
  bool sound = true;
  for (const Parts* parts : {&plain, &tls}) {
    sound = Sound("submits", parts->submits) && sound;
    sound = Sound("sessions", parts->sessions) && sound;
    sound = Sound("the restart of 16,384 ranks", parts->restart) && sound;
  }
  if (!sound) return false;
  std::printf("load of the machine: %.1f before, %.1f at the end\n", load[0], load[1]);
  PrintRows(plain, 1);
  std::printf("\nwith TLS, each aim within %.1f times\n", kTls);
  PrintRows(tls, kTls);
  std::printf(
      "\nmissing after kill -9: 0; sessions lost: 0; START to a node of 8 ranks: %.0f KiB\n",
      plain.restart["restart"]["start_bytes"].get<double>() / 1024);
  return true;
}

}  // namespace strata::bench
