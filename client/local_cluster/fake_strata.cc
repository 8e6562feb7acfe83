// Stands for `strata` where a test starts a supervisor: `strata supervise --dir D`.
#include <cstring>

#include "client/local_cluster/supervisor.h"
#include "common/clock.h"

int main(int argc, char** argv) {
  if (argc != 4 || std::strcmp(argv[1], "supervise") != 0) return 2;
  const strata::common::MonotonicClock clock{};
  return strata::client::RunSupervisor(argv[3], clock);
}
