#include "tests/bench/step_trace.h"

#include <algorithm>
#include <cstdio>

#include "program/passes/expand.h"

namespace strata::bench {
namespace {

using worker::TraceRecord;

constexpr size_t kWaitsShown = 12;

// By begin.
std::vector<TraceRecord> LatestStep(const std::vector<TraceRecord>& trace) {
  int64_t latest = 0;
  for (const TraceRecord& record : trace) latest = std::max(latest, record.step);
  std::vector<TraceRecord> found;
  for (const TraceRecord& record : trace) {
    if (record.step == latest && record.end > 0) found.push_back(record);
  }
  std::sort(found.begin(), found.end(),
            [](const TraceRecord& a, const TraceRecord& b) { return a.begin < b.begin; });
  return found;
}

}  // namespace

void PrintWaits(const worker::Engine& engine, const std::vector<TraceRecord>& trace) {
  const program::ProgramSet& set = engine.programs();
  const program::ExpandedProgram expanded = program::Expand(set, set.programs[0]);
  const std::vector<TraceRecord> step = LatestStep(trace);
  struct Wait {
    double seconds = 0, begin = 0, end = 0;
    int next = -1;
  };
  std::vector<Wait> waits;
  double free_since = 0, first = 0;
  for (const TraceRecord& record : step) {
    if (expanded.actions[record.action].stream != program::Stream::kCompute) continue;
    if (free_since > 0) {
      waits.push_back({record.begin - free_since, free_since, record.begin, record.action});
    } else {
      first = record.begin;
    }
    free_since = record.end;
  }
  std::sort(waits.begin(), waits.end(),
            [](const Wait& a, const Wait& b) { return a.seconds > b.seconds; });
  waits.resize(std::min(waits.size(), kWaitsShown));
  std::fprintf(stderr, "the longest waits of a step of %.4f s on the compute stream\n",
               free_since - first);
  for (const Wait& wait : waits) {
    std::fprintf(stderr, "%8.4f s at %.4f before %s; ended meanwhile:", wait.seconds,
                 wait.begin - first, engine.Describe(0, wait.next).c_str());
    for (const TraceRecord& record : step) {
      if (record.end < wait.begin || record.end > wait.end || record.action == wait.next) continue;
      if (expanded.actions[record.action].stream == program::Stream::kCompute) continue;
      std::fprintf(stderr, " %s (from %.4f, %.4f s);", engine.Describe(0, record.action).c_str(),
                   record.begin - first, record.end - record.begin);
    }
    std::fprintf(stderr, "\n");
  }
}

}  // namespace strata::bench
