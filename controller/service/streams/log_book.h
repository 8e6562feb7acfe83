// The log lines of jobs: a bounded file in each job's folder, so that they outlive the controller,
// and whoever follows them live.
//
// Files are touched by the file pool's threads only: a file system that hangs delays nothing but
// the lines of its own job. Lines are numbered per job, so that a reader can go on behind one. A
// folder may have been another job's: lines in it that are not this job's are not shown. Files are
// opened beneath the roots of the job's project; where that cannot be, lines are kept in memory.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_LOG_BOOK_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_LOG_BOOK_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/path_roots.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/files/job_folder.h"
#include "controller/service/files/source.h"
#include "controller/service/reactor/reactor.h"
#include "controller/service/streams/subscriber.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

class LogBook final : public Reactor::Listener {
 public:
  using Follower = std::shared_ptr<Subscriber<v1::LogLine>>;
  struct Options {
    int64_t most_bytes = int64_t{8} << 20;   // of a file; the one before it is kept as log.jsonl.1
    size_t most_recent = 200;                // lines in memory, for when the file cannot be written
    size_t longest_line = size_t{16} << 10;  // bytes of its text
    size_t most_followers = 64;              // of one job
    size_t most_pending = 4096;              // lines of one job that its file has not yet taken
    size_t most_pending_bytes = size_t{4} << 20;
    int most_tail = 10'000;  // lines
  };
  static constexpr int32_t kAllRanks = -1;

  // Borrowed: pool.
  LogBook(const Options& options, FilePool* pool) : options_(options), pool_(pool) {}

  // A line that `node` (nodes/NAME) brings of the job with that uid (empty: whichever has the
  // name). It is dropped unless the job is known and the node a member of the epoch that the line
  // names, as far as that epoch is remembered (the last ones since the start). Lines that come
  // faster than the folder takes them are dropped and counted by a line of the controller's. From
  // any thread; waits for nothing.
  void Append(const std::string& node, const std::string& job, const std::string& uid,
              v1::LogLine line);

  // What there is so far of what is asked for (ranks, epoch, since, tail, behind a cursor), oldest
  // first and some at a time; `follower`, unless null, gets what comes later, and is ended when the
  // job is. The source is called as the pool's work of this job; OutOfRange: the line behind the
  // cursor is no longer kept. Unavailable: nothing is loaded yet. From any thread.
  absl::StatusOr<Source<v1::LogLine>> Follow(const v1::StreamLogsRequest& asked, Follower follower);

  // The job's folder, with the roots that its project has now. NotFound; Unavailable: nothing is
  // loaded yet. From any thread.
  absl::StatusOr<JobFolder> FolderOf(const std::string& job) const;

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override;
  void OnLoad(const Core& core) override;
  void OnStop() override;

 private:
  using Line = std::shared_ptr<const v1::LogLine>;
  struct Wanted {
    explicit Wanted(const v1::StreamLogsRequest& asked);
    bool operator()(const v1::LogLine& line) const;
    std::set<int32_t> ranks;  // empty: all
    int64_t epoch = 0;
    double since = 0;   // seconds since 1970
    int64_t after = 0;  // number of a line
    int tail = 0;       // 0: all
  };
  struct Following {
    Wanted wanted;
    Follower follower;
  };
  struct JobLog {
    std::string name;
    std::string uid;
    std::string directory;
    JobFolder folder() const;
    // The file's, for the pool's task of this job, of which there is one at a time.
    int64_t next_number = 0;   // 0: not known yet
    bool in_file = true;       // the file holds everything that was appended
    mutable std::mutex mutex;  // guards what follows; no file is touched while it is held
    std::vector<std::string> roots;
    std::vector<v1::LogLine> pending;
    size_t pending_bytes = 0;
    int64_t lost = 0;  // lines that could not wait
    bool draining = false;
    std::deque<Line> recent;
    std::vector<Following> followers;
    std::map<int64_t, std::set<std::string>> members;  // nodes, by epoch
    bool ended = false;
  };
  using Log = std::shared_ptr<JobLog>;
  struct Replay;  // one follower's reading

  absl::StatusOr<Log> Find(const std::string& job) const;
  void Learn(const Core& core, const v1::JobRecord& job);
  // All of these are the pool's work, and outlive the book when a file hangs.
  static void Drain(const Options& options, const Log& log);
  using Roots = absl::StatusOr<common::PathRoots>;  // not OK: no file is to be opened
  static void Number(const Roots& roots, JobLog& log);
  static bool WriteToFile(const Options& options, const Roots& roots, const JobLog& log,
                          const std::vector<std::string>& lines);
  static absl::Status OpenReplay(const Options& options, Replay& replay);
  static absl::StatusOr<Piece<v1::LogLine>> ReadSome(const Options& options, Replay& replay);
  static void EndFollowers(JobLog& log, const absl::Status& status);

  const Options options_;
  FilePool* const pool_;
  std::atomic<bool> loaded_{false};
  uint64_t ticks_ = 0;
  mutable std::mutex mutex_;  // guards logs_ itself
  std::map<std::string, Log> logs_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_LOG_BOOK_H_
