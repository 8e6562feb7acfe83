// What a simulation tells.
#ifndef STRATA_CONTROLLER_SIMULATOR_REPORT_H_
#define STRATA_CONTROLLER_SIMULATOR_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace strata::simulator {

struct Waits {  // of first starts, in seconds
  int64_t jobs = 0;
  double mean = 0, p50 = 0, p99 = 0, longest = 0;
};

struct CauseReport {
  std::string name;
  int64_t happened = 0;      // on nodes that were up
  int64_t interrupted = 0;   // pauses of training that it began
  double pause_seconds = 0;  // mean
};

struct JobReport {
  std::string name;
  std::string state;
  int64_t nodes = 0, ranks = 0;
  int64_t interruptions = 0;   // by failures
  int64_t planned = 0;         // orderly moves: preempted, drained
  double life_seconds = 0;     // from the first step to the last commit, without time in the queue
  double planned_seconds = 0;  // of that: pauses of orderly moves
  double productive_seconds = 0;  // committed steps times their length
  double ettr = 0;                // productive / life
  // Productive / (life − planned), and what the formula says for it (ettr.h), with the rate of
  // failures of as many nodes and the mean pause that was simulated; 0 without any life.
  double ettr_unplanned = 0, ettr_formula = 0;
};

struct Report {
  std::string violation;  // empty: all invariants held
  int64_t violation_event = 0;
  double virtual_seconds = 0;
  int64_t nodes = 0, devices = 0;

  double utilisation = 0;  // device time in which ranks trained (saving included)
  double allocation = 0;   // device time held by ranks
  int64_t submitted = 0, refused = 0, started = 0, succeeded = 0, failed = 0, cancelled = 0;
  std::string first_refusal;
  std::map<int64_t, Waits> waits;  // by priority
  Waits all_waits;
  std::vector<CauseReport> causes;
  std::map<std::string, int64_t> restarts_by_told_cause;  // JobEvent.cause
  int64_t preemptions = 0;                                // of running jobs, for others
  int64_t replaced_nodes = 0;  // in restarts: nodes that the epoch before did not have
  int64_t kept_places = 0;     // ranks that stayed where they were
  int64_t moved_places = 0;    // and that did not
  int64_t controller_ends = 0;
  // Of restarts after failures: from the end of the ranks until new ones were placed.
  Waits node_waits;
  double lost_seconds = 0;       // work done and done again, summed over jobs
  double pause_seconds = 0;      // mean of the pauses that failures began: u0
  double rate_per_node_day = 0;  // of failures that lose work

  std::vector<JobReport> jobs;  // those that trained, in the order of submission
  // Weighted by node-seconds of life.
  double ettr = 0, ettr_unplanned = 0, ettr_formula = 0;

  int64_t events = 0, inputs = 0, commits = 0, writes = 0, written_bytes = 0, messages = 0;
  int64_t ticks = 0, full_checks = 0;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_REPORT_H_
