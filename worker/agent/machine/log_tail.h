// The lines that are added to a log file, as they come.
#ifndef STRATA_WORKER_AGENT_MACHINE_LOG_TAIL_H_
#define STRATA_WORKER_AGENT_MACHINE_LOG_TAIL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace strata::worker {

// Used by one thread. A file that is not there yet, or cannot be read, has no lines.
class LogTail {
 public:
  static constexpr size_t kLongestLine = 4096;                // the rest is left out
  static constexpr int64_t kLargestFile = int64_t{16} << 20;  // then it begins anew
  // A reader further behind leaves lines out, and says so in their place: the newest tell more.
  static constexpr int64_t kMostBehind = int64_t{256} << 10;

  // `from_end`: what is in the file already was told by somebody else.
  LogTail(std::string path, bool from_end);

  // At most so many whole lines, without their ends. `last`: nobody writes any more: also a line
  // without an end.
  std::vector<std::string> Read(size_t most, bool last = false);

 private:
  // False: nothing more is there now.
  bool ReadMore();
  void LeaveOut(int64_t bytes);

  const std::string path_;
  int64_t offset_ = 0;
  std::string pending_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_LOG_TAIL_H_
