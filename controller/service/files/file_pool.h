// Threads for work that may hang: files of jobs lie on file systems that the controller does not
// choose, so gRPC's threads and the reactor's never open one.
//
// Work is keyed by job: of one key one task runs at a time, in order, so that a file system that
// hangs takes one thread and delays no other job.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_FILE_POOL_H_
#define STRATA_CONTROLLER_SERVICE_FILES_FILE_POOL_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"

namespace strata::controller {

class FilePool {
 public:
  struct Options {
    size_t most_threads = 64;      // made as they are needed; so many jobs may hang at a time
    size_t most_waiting = 256;     // tasks of one key
    double deadline_seconds = 10;  // of one task
  };
  struct Task {
    std::function<void()> run;
    // Called instead of `run`, or beside it when `run` is under way for longer than the deadline
    // (what `run` still does then is nobody's), from one of the pool's threads or ~FilePool's.
    std::function<void(const absl::Status&)> give_up;
  };

  explicit FilePool(const Options& options);
  // Gives up what waits and what runs; threads that hang are left behind, with what their tasks
  // own.
  ~FilePool();
  FilePool(const FilePool&) = delete;
  FilePool& operator=(const FilePool&) = delete;

  // Tasks own what they use. Not OK: neither function will be called. ResourceExhausted: too much
  // waits for this key, or all threads hang. Unavailable: the key's folder does not answer.
  absl::Status Submit(const std::string& key, Task task);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_FILE_POOL_H_
