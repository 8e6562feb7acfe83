// Work on files that may hang, as those of a job's user may (NFS, FUSE, a FIFO in a file's place):
// it is done on a thread of its own, and who asks for it goes on.
#ifndef STRATA_WORKER_AGENT_MACHINE_FILE_WORK_H_
#define STRATA_WORKER_AGENT_MACHINE_FILE_WORK_H_

#include <functional>
#include <memory>

namespace strata::worker {

// Used by one thread.
class FileWork {
 public:
  FileWork();
  // What was asked for is still done: a thread that hangs is left behind with what its work owns.
  ~FileWork();
  FileWork(const FileWork&) = delete;
  FileWork& operator=(const FileWork&) = delete;

  // Tasks are done in order, one at a time. They own what they use.
  void Do(std::function<void()> task);
  // Whether all is done; what the tasks wrote is seen then. Waits for it up to `seconds`, but not
  // again for work that has taken longer already.
  bool Settle(double seconds);

 private:
  struct State;
  const std::shared_ptr<State> state_;  // shared with the thread
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_FILE_WORK_H_
