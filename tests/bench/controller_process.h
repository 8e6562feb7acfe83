// The real controller in a process of its own.
#ifndef STRATA_TESTS_BENCH_CONTROLLER_PROCESS_H_
#define STRATA_TESTS_BENCH_CONTROLLER_PROCESS_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "grpcpp/channel.h"
#include "tests/bench/bench_certificates.h"

namespace strata::bench {

class ControllerProcess {
 public:
  // Returns when it serves, or has ended: then it does not run. `certificates`: serves TLS with
  // them (borrowed); null: plain.
  ControllerProcess(const std::string& program, const std::string& directory,
                    BenchCertificates* certificates = nullptr);
  ~ControllerProcess() { Kill(); }

  void Kill();
  // Sends SIGTERM and waits for the end. Whether it ended by itself with exit code 0.
  bool Terminate() { return End(SIGTERM); }
  bool runs() const { return pid_ > 0; }
  // A connection of its own, as "node/NAME" or "user/NAME" where the controller serves TLS.
  std::shared_ptr<grpc::Channel> Connect(const std::string& as = kBenchUser) const;
  int64_t resident_bytes() const;
  double processor_seconds() const;  // since its start, of all threads

 private:
  bool End(int signal);

  BenchCertificates* const certificates_;
  pid_t pid_ = -1;
  std::string address_;
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_CONTROLLER_PROCESS_H_
