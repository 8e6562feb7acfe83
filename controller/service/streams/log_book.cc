#include "controller/service/streams/log_book.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <optional>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "controller/logic/job_roots.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/files/line_reader.h"
#include "controller/service/files/log_line.h"
#include "controller/service/reactor/policy_view.h"
#include "controller/service/streams/progress_hub.h"
#include "controller/service/streams/text_limits.h"

namespace strata::controller {
namespace {

constexpr char kFile[] = "/log.jsonl";
constexpr char kOlderFile[] = "/log.jsonl.1";

constexpr size_t kMostAtOnce = 256;  // lines that one task of the pool reads
constexpr size_t kMostBytesAtOnce = size_t{256} << 10;
constexpr int64_t kMostReadAtOnce = int64_t{4} << 20;  // bytes of the file
constexpr int64_t kNumberedTail = int64_t{1} << 20;    // bytes in which the last line is
constexpr size_t kEpochsKept = 4;                      // of which late lines are taken

int64_t NumberOf(const v1::LogLine& line) {
  int64_t number = 0;
  return absl::SimpleAtoi(line.cursor(), &number) ? number : 0;
}

absl::Status LineNotKept(int64_t number) {
  return Refusal(absl::StatusCode::kOutOfRange, "LINES_LOST",
                 absl::StrCat("what follows line ", number, " is no longer kept"));
}

constexpr mode_t kFolderMode = 0777;  // less the umask

int OpenToAppend(const common::PathRoots& roots, const std::string& path) {
  return roots.OpenFile(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW, 0644);
}

bool Rename(const common::PathRoots& roots, const std::string& from, const std::string& to) {
  const common::PathRoots::Place source = roots.OpenParent(from), target = roots.OpenParent(to);
  return source.folder() != -1 && target.folder() != -1 &&
         renameat(source.folder(), source.name(), target.folder(), target.name()) == 0;
}

}  // namespace

absl::StatusOr<LogBook::Log> LogBook::Find(const std::string& job) const {
  if (!loaded_) return absl::UnavailableError("the controller is starting");
  const std::lock_guard lock(mutex_);
  const auto found = logs_.find(job);
  if (found != logs_.end()) return found->second;
  return Refusal(absl::StatusCode::kNotFound, "JOB_NOT_FOUND",
                 absl::StrCat("there is no job ", ShortName(job)));
}

JobFolder LogBook::JobLog::folder() const {
  const std::lock_guard lock(mutex);
  return {directory, uid, roots};
}

absl::StatusOr<JobFolder> LogBook::FolderOf(const std::string& job) const {
  ASSIGN_OR_RETURN(const Log log, Find(job));
  return log->folder();
}

LogBook::Wanted::Wanted(const v1::StreamLogsRequest& asked)
    : ranks(asked.ranks().begin(), asked.ranks().end()),
      epoch(asked.epoch()),
      since(static_cast<double>(asked.since().seconds()) + 1e-9 * asked.since().nanos()),
      tail(asked.tail()) {
  if (asked.rank() != kAllRanks) ranks.insert(asked.rank());
  static_cast<void>(absl::SimpleAtoi(asked.cursor(), &after));
}

bool LogBook::Wanted::operator()(const v1::LogLine& line) const {
  if (!ranks.empty() && ranks.count(line.rank()) == 0 && line.rank() != kAllRanks) return false;
  if (epoch != 0 && line.epoch() != epoch) return false;
  const double time = static_cast<double>(line.time().seconds()) + 1e-9 * line.time().nanos();
  return time >= since;
}

// What a file holds ends with the greatest number; lines of older releases have none.
void LogBook::Number(const Roots& roots, JobLog& log) {
  if (log.next_number > 0) return;
  int64_t last = 0;
  for (const char* const file : {kFile, kOlderFile}) {
    LineReader reader;
    if (roots.ok()) reader.AddTail(*roots, log.directory + file, kNumberedTail);
    while (const std::optional<std::string> text = reader.Next()) {
      const std::optional<v1::LogLine> line = ParseLogLine(*text, log.uid);
      if (line.has_value()) last = std::max(last, NumberOf(*line));
    }
    if (last > 0) break;
  }
  log.next_number = last + 1;
}

// Whole lines: a part of one that could be written is taken back.
bool LogBook::WriteToFile(const Options& options, const Roots& roots, const JobLog& log,
                          const std::vector<std::string>& lines) {
  if (!roots.ok()) return false;
  const std::string path = log.directory + kFile;
  auto next = lines.begin();
  while (next != lines.end()) {
    int file = OpenToAppend(*roots, path);
    if (file < 0 && errno == ENOENT) {
      const int folder = roots->MakeFolders(log.directory, kFolderMode);
      if (folder < 0) return false;
      close(folder);
      file = OpenToAppend(*roots, path);
    }
    if (file < 0) return false;
    const absl::Cleanup closer = [file] { close(file); };
    struct stat info = {};
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink > 1) return false;
    int64_t size = info.st_size;
    for (; next != lines.end() && size < options.most_bytes; ++next) {
      ssize_t written = 0;
      do {
        written = write(file, next->data(), next->size());
      } while (written < 0 && errno == EINTR);
      if (written != static_cast<ssize_t>(next->size())) {
        if (written > 0) static_cast<void>(!ftruncate(file, size));
        return false;
      }
      size += written;
    }
    if (size < options.most_bytes) continue;
    if (!Rename(*roots, path, log.directory + kOlderFile)) return false;
  }
  return true;
}

void LogBook::Drain(const Options& options, const Log& log) {
  std::vector<v1::LogLine> lines;
  int64_t lost = 0;
  {
    const std::lock_guard lock(log->mutex);
    lines.swap(log->pending);
    log->pending_bytes = 0;
    log->draining = false;
    lost = std::exchange(log->lost, 0);
  }
  if (lost > 0) {
    v1::LogLine note;
    note.mutable_time()->set_seconds(static_cast<int64_t>(common::WallSeconds()));
    note.set_rank(kAllRanks);
    note.set_text(absl::StrCat("(", lost, " lines were lost: the job's folder did not take them)"));
    lines.push_back(std::move(note));
  }
  const Roots roots = log->folder().OpenRoots();
  Number(roots, *log);
  std::vector<std::string> texts;
  for (v1::LogLine& line : lines) {
    line.set_cursor(absl::StrCat(log->next_number++));
    texts.push_back(WriteLogLine(line, log->uid));
  }
  log->in_file = WriteToFile(options, roots, *log, texts);
  const std::lock_guard lock(log->mutex);
  for (v1::LogLine& line : lines) {
    const auto shared = std::make_shared<const v1::LogLine>(std::move(line));
    log->recent.push_back(shared);
    if (log->recent.size() > options.most_recent) log->recent.pop_front();
    std::erase_if(log->followers, [&](const Following& following) {
      return following.wanted(*shared) && !following.follower->Push(shared);
    });
  }
}

void LogBook::EndFollowers(JobLog& log, const absl::Status& status) {
  const std::lock_guard lock(log.mutex);
  for (const Following& following : log.followers) following.follower->End(status);
  log.followers.clear();
}

void LogBook::Append(const std::string& node, const std::string& job, const std::string& uid,
                     v1::LogLine line) {
  const absl::StatusOr<Log> found = Find(job);
  if (!found.ok()) return;
  const Log& log = *found;
  if (!uid.empty() && uid != log->uid) return;
  CutText(options_.longest_line, *line.mutable_text());
  {
    const std::lock_guard lock(log->mutex);
    const auto members = log->members.find(line.epoch());
    if (members == log->members.end() || members->second.count(node) == 0) return;
    if (log->pending.size() >= options_.most_pending ||
        log->pending_bytes + line.text().size() > options_.most_pending_bytes) {
      ++log->lost;
      return;
    }
    log->pending_bytes += line.text().size();
    log->pending.push_back(std::move(line));
    if (std::exchange(log->draining, true)) return;
  }
  const absl::Status submitted =
      pool_->Submit(job, {[options = options_, log] { Drain(options, log); },
                          [log](const absl::Status& why) { EndFollowers(*log, why); }});
  if (submitted.ok()) return;
  const std::lock_guard lock(log->mutex);
  log->draining = false;  // the next line tries again
}

struct LogBook::Replay {
  Replay(Log of, Wanted what, Follower who)
      : log(std::move(of)), wanted(std::move(what)), follower(std::move(who)) {}
  const Log log;
  const Wanted wanted;
  Follower follower;
  bool opened = false;
  bool checked = false;           // the first line against the cursor
  LineReader reader;              // of the files, or else:
  std::deque<Line> recent;        // the lines in memory
  std::deque<v1::LogLine> lines;  // read, and not given out yet

  bool at_end() const { return reader.at_end() && recent.empty(); }
  // Nothing: for now, or at the end.
  std::optional<v1::LogLine> Next() {
    while (const std::optional<std::string> text = reader.Next()) {
      if (std::optional<v1::LogLine> line = ParseLogLine(*text, log->uid)) return line;
    }
    if (recent.empty()) return std::nullopt;
    const Line line = std::move(recent.front());
    recent.pop_front();
    return *line;
  }
};

// What is there now is read; what comes later is the follower's. Nothing is written meanwhile.
absl::Status LogBook::OpenReplay(const Options& options, Replay& replay) {
  JobLog& log = *replay.log;
  const Roots roots = log.folder().OpenRoots();
  Number(roots, log);
  if (replay.wanted.after >= log.next_number) return LineNotKept(replay.wanted.after);
  if (log.in_file && roots.ok()) {
    // No longer than we let them become, whatever their owner makes of them.
    const int64_t most = options.most_bytes + kNumberedTail;
    replay.reader.AddTail(*roots, log.directory + kOlderFile, most);
    replay.reader.AddTail(*roots, log.directory + kFile, most);
  }
  const std::lock_guard lock(log.mutex);
  if (!log.in_file) replay.recent = log.recent;
  if (replay.follower == nullptr) return absl::OkStatus();
  if (log.ended) {
    replay.follower->End(absl::OkStatus());
  } else if (log.followers.size() >= options.most_followers) {
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                   absl::StrCat(log.followers.size(), " streams follow ", log.name, " already"));
  } else {
    log.followers.push_back({replay.wanted, replay.follower});
  }
  return absl::OkStatus();
}

absl::StatusOr<Piece<v1::LogLine>> LogBook::ReadSome(const Options& options, Replay& replay) {
  if (!std::exchange(replay.opened, true)) RETURN_IF_ERROR(OpenReplay(options, replay));
  const int tail = std::min(replay.wanted.tail, options.most_tail);
  std::deque<v1::LogLine>& lines = replay.lines;
  size_t bytes = 0;
  replay.reader.Allow(kMostReadAtOnce);
  while (tail > 0 || (lines.size() < kMostAtOnce && bytes < kMostBytesAtOnce)) {
    std::optional<v1::LogLine> line = replay.Next();
    if (!line.has_value()) break;
    const int64_t number = NumberOf(*line);
    if (replay.wanted.after > 0 && !std::exchange(replay.checked, true) &&
        number > replay.wanted.after + 1) {
      return LineNotKept(replay.wanted.after);
    }
    if (replay.wanted.after > 0 && number <= replay.wanted.after) continue;
    if (!replay.wanted(*line)) continue;
    bytes += line->ByteSizeLong();
    lines.push_back(*std::move(line));
    if (tail > 0 && lines.size() > static_cast<size_t>(tail)) lines.pop_front();
  }
  Piece<v1::LogLine> piece;
  piece.last = replay.at_end();
  if (tail > 0 && !piece.last) return piece;  // which lines are the last is not known yet
  piece.messages.assign(std::move_iterator(lines.begin()), std::move_iterator(lines.end()));
  lines.clear();
  return piece;
}

absl::StatusOr<Source<v1::LogLine>> LogBook::Follow(const v1::StreamLogsRequest& asked,
                                                    Follower follower) {
  ASSIGN_OR_RETURN(const Log log, Find(asked.name()));
  int64_t number = 0;
  if (!asked.cursor().empty() && !absl::SimpleAtoi(asked.cursor(), &number)) {
    return InvalidField("cursor", "is none that a line came with");
  }
  if (asked.tail() < 0) return InvalidField("tail", "is negative");
  const auto replay = std::make_shared<Replay>(log, Wanted(asked), std::move(follower));
  return [options = options_, replay] { return ReadSome(options, *replay); };
}

void LogBook::Learn(const Core& core, const v1::JobRecord& job) {
  std::vector<std::string> roots = RootsOf(core.policy(), job.spec());
  Log log;
  {
    const std::lock_guard lock(mutex_);
    Log& known = logs_[job.name()];
    if (known == nullptr) {
      known = std::make_shared<JobLog>();
      known->name = job.name();
      known->uid = job.uid();
      known->directory = job.directory();
      known->roots = roots;  // before anybody finds it
    }
    log = known;
  }
  {
    const std::lock_guard lock(log->mutex);
    log->roots = std::move(roots);
    if (job.placement_size() > 0) {
      std::set<std::string>& members = log->members[job.epoch()];
      for (const v1::RankPlace& place : job.placement()) members.insert(NodeName(place.node()));
      while (log->members.size() > kEpochsKept) log->members.erase(log->members.begin());
    }
    if (!IsTerminal(job.state()) || std::exchange(log->ended, true)) return;
  }
  // After the lines that came before.
  const absl::Status submitted =
      pool_->Submit(job.name(), {[log] { EndFollowers(*log, absl::OkStatus()); },
                                 [log](const absl::Status& why) { EndFollowers(*log, why); }});
  if (!submitted.ok()) EndFollowers(*log, submitted);
}

void LogBook::OnEffects(const Core& core, const Effects& effects) {
  for (const v1::JobRecord& job : effects.deleted) {
    const std::lock_guard lock(mutex_);
    logs_.erase(job.name());
  }
  for (const v1::JobRecord& job : effects.changed) {
    if (!effects.IsDeleted(job)) Learn(core, job);
  }
  if (!ChangesPolicy(effects)) return;
  for (const v1::JobRecord* job : core.Jobs()) Learn(core, *job);  // their roots
}

void LogBook::OnTick(const Core& /*core*/) {
  // Followers that went away are forgotten with the next line, or now and then.
  if (++ticks_ % 32 != 0) return;
  std::vector<Log> logs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, log] : logs_) logs.push_back(log);
  }
  for (const Log& log : logs) {
    const std::lock_guard lock(log->mutex);
    std::erase_if(log->followers,
                  [](const Following& following) { return !following.follower->alive(); });
  }
}

void LogBook::OnLoad(const Core& core) {
  for (const v1::JobRecord* job : core.Jobs()) Learn(core, *job);
  loaded_ = true;
}

void LogBook::OnStop() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, log] : logs_) {
    EndFollowers(*log, absl::UnavailableError("the controller is shutting down"));
  }
}

}  // namespace strata::controller
