// What metrics tell of the scheduler.
#ifndef STRATA_CONTROLLER_LOGIC_SCHEDULER_FIGURES_H_
#define STRATA_CONTROLLER_LOGIC_SCHEDULER_FIGURES_H_

#include <cstdint>
#include <map>
#include <string>

#include "controller/logic/snapshot.h"

namespace strata::controller {

struct SchedulerFigures {
  struct Kind {
    int64_t free = 0;           // devices that a new rank may take
    int64_t largest_block = 0;  // of these, most in one domain: the largest tensor group to place
  };
  int64_t pending_jobs = 0;  // QUEUED
  int64_t drained_nodes = 0;
  int64_t quarantined_nodes = 0;
  int64_t buffer_free = 0, buffer_lent = 0, buffer_missing = 0;  // nodes of scheduling.buffer
  int64_t spare_nodes = 0;                   // kept in mind for running jobs, and wholly free
  std::map<std::string, Kind> kinds;         // by kind of device
  std::map<v1::Node::State, int64_t> nodes;  // of all that are known
  int64_t devices = 0, free_devices = 0;     // of these
};

// Takes time in proportion to the nodes and jobs.
SchedulerFigures FiguresOf(const Snapshot& snapshot);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_SCHEDULER_FIGURES_H_
