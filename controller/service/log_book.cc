#include "controller/service/log_book.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/jsonl.h"
#include "controller/service/line_reader.h"
#include "controller/service/progress_hub.h"

namespace strata::controller {
namespace {

constexpr char kFile[] = "/log.jsonl";
constexpr char kOlderFile[] = "/log.jsonl.1";

// Cuts at a character's beginning.
void CutText(size_t most, std::string& text) {
  if (text.size() <= most) return;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  text.resize(most);
  text += " …";
}

int OpenToAppend(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
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

absl::StatusOr<std::string> LogBook::DirectoryOf(const std::string& job) const {
  ASSIGN_OR_RETURN(const Log log, Find(job));
  return log->directory;
}

// Whole lines: a part of one that could be written is taken back.
bool LogBook::WriteToFile(const JobLog& log, const std::string& line) const {
  const std::string path = log.directory + kFile;
  int file = OpenToAppend(path);
  if (file < 0 && errno == ENOENT) {
    std::error_code error;
    std::filesystem::create_directories(log.directory, error);
    file = OpenToAppend(path);
  }
  if (file < 0) return false;
  const absl::Cleanup closer = [file] { close(file); };
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  ssize_t written = 0;
  do {
    written = write(file, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) {
    if (written > 0) static_cast<void>(!ftruncate(file, info.st_size));
    return false;
  }
  if (info.st_size + written >= options_.most_bytes) {
    static_cast<void>(rename(path.c_str(), (log.directory + kOlderFile).c_str()));
  }
  return true;
}

void LogBook::Append(const std::string& job, v1::LogLine line) {
  const absl::StatusOr<Log> found = Find(job);
  if (!found.ok()) return;
  const Log& log = *found;
  CutText(options_.longest_line, *line.mutable_text());
  const std::lock_guard file_lock(log->file_mutex);
  log->in_file = WriteToFile(*log, WriteLogLine(line));
  const auto shared = std::make_shared<const v1::LogLine>(std::move(line));
  const std::lock_guard lock(log->state_mutex);
  log->recent.push_back(shared);
  if (log->recent.size() > options_.most_recent) log->recent.pop_front();
  std::erase_if(log->followers, [&](const Following& following) {
    return Wanted(following.rank, *shared) && !following.follower->Push(shared);
  });
}

// With the log's two mutexes held.
LogBook::Source LogBook::SourceOf(JobLog& log, int32_t rank) {
  if (!log.in_file) {
    const auto lines = std::make_shared<std::deque<std::shared_ptr<const v1::LogLine>>>(log.recent);
    return [lines, rank]() -> std::optional<v1::LogLine> {
      while (!lines->empty()) {
        const std::shared_ptr<const v1::LogLine> line = lines->front();
        lines->pop_front();
        if (Wanted(rank, *line)) return *line;
      }
      return std::nullopt;
    };
  }
  const auto reader = std::make_shared<LineReader>();
  reader->Add(log.directory + kOlderFile);
  struct stat info = {};
  const std::string path = log.directory + kFile;
  if (stat(path.c_str(), &info) == 0) reader->Add(path, info.st_size);
  return [reader, rank]() -> std::optional<v1::LogLine> {
    while (const std::optional<std::string> text = reader->Next()) {
      std::optional<v1::LogLine> line = ParseLogLine(*text);
      if (line.has_value() && Wanted(rank, *line)) return line;
    }
    return std::nullopt;
  };
}

absl::StatusOr<LogBook::Source> LogBook::Follow(const std::string& job, int32_t rank,
                                                Follower follower) {
  ASSIGN_OR_RETURN(const Log log, Find(job));
  const std::lock_guard file_lock(log->file_mutex);
  const std::lock_guard lock(log->state_mutex);
  Source source = SourceOf(*log, rank);
  if (follower == nullptr) return source;
  if (log->ended) {
    follower->End(absl::OkStatus());
    return source;
  }
  if (log->followers.size() >= options_.most_followers) {
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                   absl::StrCat(log->followers.size(), " streams follow ", job, " already"));
  }
  log->followers.push_back({rank, std::move(follower)});
  return source;
}

void LogBook::Learn(const v1::JobRecord& job) {
  Log log;
  {
    const std::lock_guard lock(mutex_);
    Log& known = logs_[job.name()];
    if (known == nullptr) {
      known = std::make_shared<JobLog>();
      known->directory = job.directory();
    }
    log = known;
  }
  if (!IsTerminal(job.state())) return;
  const std::lock_guard lock(log->state_mutex);
  log->ended = true;
  for (const Following& following : log->followers) following.follower->End(absl::OkStatus());
  log->followers.clear();
}

void LogBook::OnEffects(const Core& /*core*/, const Effects& effects) {
  for (const v1::JobRecord& job : effects.changed) Learn(job);
  for (const Write& write : effects.writes) {
    if (write.table != "jobs" || !write.erase) continue;
    const std::lock_guard lock(mutex_);
    logs_.erase(write.key);
  }
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
    const std::lock_guard lock(log->state_mutex);
    std::erase_if(log->followers,
                  [](const Following& following) { return !following.follower->alive(); });
  }
}

void LogBook::OnLoad(const Core& core) {
  for (const v1::JobRecord* job : core.Jobs()) Learn(*job);
  loaded_ = true;
}

void LogBook::OnStop() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, log] : logs_) {
    const std::lock_guard state_lock(log->state_mutex);
    for (const Following& following : log->followers) {
      following.follower->End(absl::UnavailableError("the controller is shutting down"));
    }
    log->followers.clear();
  }
}

}  // namespace strata::controller
