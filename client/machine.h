// What this machine has: read from /proc, /sys and system calls. Every probe is safe to run
// anywhere.
#ifndef STRATA_CLIENT_MACHINE_H_
#define STRATA_CLIENT_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace strata::client {

// Cores this process may run on, at least 1.
int UsableCores();

// Memory that processes may use, in bytes: MemTotal, or the control group's limit if that is less;
// 0 when unknown.
int64_t UsableMemory();

// The value in bytes of a `NAME:   123 kB` line of /proc/meminfo or /proc/PID/status text, or 0.
int64_t FieldInKilobytes(absl::string_view text, absl::string_view name);

// Processor seconds that the machine has spent on processes since it started, by the text of
// /proc/stat; 0: it does not say.
double BusySeconds(absl::string_view stat);

// What others than this process and the children that it has waited for use of the processors.
class OtherProcesses {
 public:
  OtherProcesses() : begin_(Now()) {}
  // On average since this was made, in processors; 0 where other machines' processes would count,
  // as this one may use a part of the processors only.
  double Processors() const;

 private:
  struct Use {
    double time = 0, busy = 0, own = 0;  // seconds
  };
  static Use Now();

  const Use begin_;
};

// Threads of a rank when `ranks` share the machine: OMP_NUM_THREADS if it is set to a number, else
// cores / ranks, at least 1.
int64_t ThreadsPerRank(int64_t ranks);

// The folder of Strata's binaries: that of this program's own file, or, when strata-worker is not
// in it but beside the link that the program was started through, that one.
std::string BinaryFolder();

}  // namespace strata::client

#endif  // STRATA_CLIENT_MACHINE_H_
