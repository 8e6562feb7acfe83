#include "tests/bench/contract.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <vector>

namespace strata::bench {
namespace {

constexpr int kSessions = 12500;
constexpr double kTls = 1.5;  // with TLS everything is to take at most so many times as long

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
                          "term_seconds", "waits", "restart"}) {
    if (part.contains(key)) {
      std::fprintf(stderr, "  %s: %s\n", key, part.at(key).dump().c_str());
    }
  }
  return false;
}

void MakeSmall(Flags& flags) {
  constexpr int kSmaller = 64;
  flags.agents = std::max(flags.agents / kSmaller, 8);
  flags.restart_nodes /= kSmaller;
  flags.fill = std::min(flags.fill, 50);
  flags.idle = flags.seconds = 1;
}

Parts MeasureParts(const Flags& base, bool tls,
                   const std::function<nlohmann::json(const Flags&)>& measure) {
  const auto with = [&](const char* what, auto set) {
    std::fprintf(stderr, "control_bench: %s%s …\n", what, tls ? ", with TLS" : "");
    Flags flags = base;
    flags.tls = tls;
    set(flags);
    if (base.trial) MakeSmall(flags);
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
  parts.sessions = with("sessions", [](Flags& flags) {
    flags.agents = kSessions;
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

// One of the things that are aimed at.
struct Aim {
  const char* what;
  const char* unit;
  double aim;
  bool at_most;  // else at least
  double plain, tls;
};

double Of(const nlohmann::json& part, std::initializer_list<const char*> path) {
  const nlohmann::json* found = &part;
  for (const char* key : path) found = &found->at(key);
  return found->get<double>();
}

std::vector<Aim> AimsOf(const Parts& plain, const Parts& tls) {
  std::vector<Aim> aims;
  const auto add = [&](const char* what, const char* unit, double aim, bool at_most,
                       auto measured) {
    aims.push_back({what, unit, aim, at_most, measured(plain), measured(tls)});
  };
  add("restart of 2,048 nodes x 8 ranks, controller's processor", "s", 2, true,
      [](const Parts& parts) {
        return Of(parts.restart, {"restart", "processor_seconds"});
      });
  add("durable submits of 32 clients", "/s", 1000, false,
      [](const Parts& parts) { return Of(parts.submits, {"submits_per_second"}); });
  add("  their p99", "ms", 100, true,
      [](const Parts& parts) { return Of(parts.submits, {"submit_p99_ms"}); });
  add("12,500 sessions with a heartbeat per second", "cores", 1, true, [](const Parts& parts) {
    return 1e-6 * kSessions * Of(parts.sessions, {"heartbeat_processor_us"});
  });
  add("longest heartbeat beside lists of all nodes", "ms", 50, true, [](const Parts& parts) {
    return Of(parts.sessions, {"waits", "lists", "heartbeat_max_ms"});
  });
  add("longest heartbeat beside explains of 16,384 ranks", "ms", 50, true, [](const Parts& parts) {
    return Of(parts.sessions, {"waits", "explains", "heartbeat_max_ms"});
  });
  return aims;
}

void PrintRows(const std::vector<Aim>& aims) {
  std::printf("%-56s %10s %10s %14s %10s\n", "", "aim", "plain", "TLS", "TLS/plain");
  for (const Aim& aim : aims) {
    // Of rates the plain one is the greater.
    const double times = aim.at_most ? aim.tls / aim.plain : aim.plain / aim.tls;
    const bool reached = aim.at_most ? aim.plain <= aim.aim : aim.plain >= aim.aim;
    std::printf("%-56s %s %4.0f %-5s %8.2f %-6s %8.2f %8.2f x %s\n", aim.what,
                aim.at_most ? "<=" : ">=", aim.aim, aim.unit, aim.plain, reached ? "" : "MISSED",
                aim.tls, times, times <= kTls ? "" : "MISSED");
  }
}

// What says how far the figures above can be trusted.
void PrintBeside(const char* how, const Parts& parts) {
  const nlohmann::json& restart = parts.restart.at("restart");
  std::printf(
      "%s: the restart took %.2f s of the wall, the first start %.2f s (%.2f s of the "
      "controller's processor)\n",
      how, Of(restart, {"seconds"}), Of(restart, {"start_seconds"}),
      Of(restart, {"start_processor_seconds"}));
  for (const char* beside : {"alone", "lists", "explains"}) {
    const nlohmann::json& waits = parts.sessions.at("waits").at(beside);
    std::printf(
        "  %-8s %5.0f answers; heartbeats p50 %.1f, p99 %.1f, longest %.1f ms; small calls "
        "%.1f, %.1f, %.1f ms\n",
        beside, Of(waits, {"answers"}), Of(waits, {"heartbeat_p50_ms"}),
        Of(waits, {"heartbeat_p99_ms"}), Of(waits, {"heartbeat_max_ms"}),
        Of(waits, {"call_p50_ms"}), Of(waits, {"call_p99_ms"}), Of(waits, {"call_max_ms"}));
  }
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
  if (base.trial) std::printf("a trial, with few sessions and ranks: this measures nothing\n");
  std::printf("load of the machine: %.1f before, %.1f at the end\n", load[0], load[1]);
  PrintRows(AimsOf(plain, tls));
  PrintBeside("plain", plain);
  PrintBeside("TLS", tls);
  std::printf(
      "missing after kill -9: 0; sessions lost: 0; a rank has %.0f peers; START to a node of 8 "
      "ranks: %.0f KiB\n",
      Of(plain.restart, {"restart", "peers"}),
      Of(plain.restart, {"restart", "start_bytes"}) / 1024);
  return true;
}

}  // namespace strata::bench
