// The real controller in a process of its own.
#ifndef STRATA_TESTS_BENCH_CONTROLLER_PROCESS_H_
#define STRATA_TESTS_BENCH_CONTROLLER_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

namespace strata::bench {

class ControllerProcess {
 public:
  // Returns when it serves, or has ended: then it does not run.
  ControllerProcess(const std::string& program, const std::string& directory);
  ~ControllerProcess() { Kill(); }

  void Kill();
  // Sends SIGTERM and waits for the end. Whether it ended by itself with exit code 0.
  bool Terminate() { return End(SIGTERM); }
  bool runs() const { return pid_ > 0; }
  const std::string& address() const { return address_; }
  int64_t resident_bytes() const;
  double processor_seconds() const;  // since its start, of all threads

 private:
  bool End(int signal);

  pid_t pid_ = -1;
  std::string address_;
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_CONTROLLER_PROCESS_H_
