// What control_bench is asked to measure.
#ifndef STRATA_TESTS_BENCH_CONTROL_FLAGS_H_
#define STRATA_TESTS_BENCH_CONTROL_FLAGS_H_

#include <string>

namespace strata::bench {

struct Flags {
  std::string controller;
  std::string directory;
  int agents = 200;
  int devices = 1;  // of each
  double idle = 4;  // seconds of heartbeats alone
  int clients = 64;
  double seconds = 12;
  int fill = 10000;           // jobs before the measurement begins
  int jobs_per_client = 40;   // then each submit is followed by a cancellation of the oldest
  int restart_nodes = 0;      // of the job that is restarted; 0: that is left out
  int restart_devices = 8;    // of each
  bool restart_data = false;  // it has no degree but data: all of its ranks exchange messages
  bool tls = false;           // with certificates of their own for all
  bool json = false;
  bool contract = false;  // instead: all aims of the control plane, each with its own flags
  bool trial = false;     // of these but small parts: whether it works
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_CONTROL_FLAGS_H_
