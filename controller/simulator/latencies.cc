#include "controller/simulator/latencies.h"

#include "absl/strings/str_format.h"

namespace strata::simulator {

std::string ExplainLatencies(const Latencies& l) {
  return absl::StrFormat(
      "Times assumed: a message %g ms; ranks start %g s and load %g s (each ±%g %%), the slowest\n"
      "decides; told to stop they are gone after %g s; a trainer's death is told after %g s; a "
      "hang\n"
      "after max(3 s, half a step); a dead connection is found after %g s; agents that reach "
      "nobody end\n"
      "their trainers after %g s; the controller is back %g s after its end; an operator drains a\n"
      "node %g s before taking it.\n",
      l.message * 1e3, l.start, l.load, l.jitter * 100, l.stop, l.word, l.keepalive, l.orphan,
      l.controller_down, l.notice);
}

}  // namespace strata::simulator
