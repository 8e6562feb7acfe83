// The log lines of jobs: a bounded file in each job's folder, so that they outlive the controller,
// and whoever follows them live.
//
// Files are touched by the threads that bring and read lines, never by the reactor's: a file system
// that hangs must not stop the cluster.
#ifndef STRATA_CONTROLLER_SERVICE_LOG_BOOK_H_
#define STRATA_CONTROLLER_SERVICE_LOG_BOOK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/service/reactor.h"
#include "controller/service/subscriber.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

class LogBook final : public Reactor::Listener {
 public:
  using Follower = std::shared_ptr<Subscriber<v1::LogLine>>;
  using Source = std::function<std::optional<v1::LogLine>()>;
  struct Options {
    int64_t most_bytes = int64_t{8} << 20;   // of a file; the one before it is kept as log.jsonl.1
    size_t most_recent = 200;                // lines in memory, for when the file cannot be written
    size_t longest_line = size_t{16} << 10;  // bytes of its text
    size_t most_followers = 64;              // of one job
  };
  static constexpr int32_t kAllRanks = -1;

  explicit LogBook(const Options& options) : options_(options) {}

  // Lines of jobs that are not known are dropped. From any thread.
  void Append(const std::string& job, v1::LogLine line);

  // Lines of `rank` (and of no rank) so far, oldest first; `follower`, unless null, gets the later
  // ones, and is ended when the job is. Unavailable: nothing is loaded yet. From any thread.
  absl::StatusOr<Source> Follow(const std::string& job, int32_t rank, Follower follower);

  // The job's folder. NotFound; Unavailable: nothing is loaded yet. From any thread.
  absl::StatusOr<std::string> DirectoryOf(const std::string& job) const;

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override;
  void OnLoad(const Core& core) override;
  void OnStop() override;

 private:
  struct Following {
    int32_t rank;
    Follower follower;
  };
  struct JobLog {
    std::string directory;
    std::mutex file_mutex;  // taken before state_mutex; never by the reactor
    bool in_file = true;    // the file holds everything that was appended
    std::mutex state_mutex;
    std::deque<std::shared_ptr<const v1::LogLine>> recent;
    std::vector<Following> followers;
    bool ended = false;
  };
  using Log = std::shared_ptr<JobLog>;

  absl::StatusOr<Log> Find(const std::string& job) const;
  void Learn(const v1::JobRecord& job);
  bool WriteToFile(const JobLog& log, const std::string& line) const;
  static bool Wanted(int32_t rank, const v1::LogLine& line) {
    return rank == kAllRanks || line.rank() == rank || line.rank() == kAllRanks;
  }
  static Source SourceOf(JobLog& log, int32_t rank);

  const Options options_;
  std::atomic<bool> loaded_{false};
  uint64_t ticks_ = 0;
  mutable std::mutex mutex_;  // guards logs_ itself
  std::map<std::string, Log> logs_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_LOG_BOOK_H_
