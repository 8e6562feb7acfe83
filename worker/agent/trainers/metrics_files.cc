#include "worker/agent/trainers/metrics_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "protocol/step_record.h"

namespace strata::worker {
namespace {

absl::Status PathError(const std::string& path, const char* action) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", strerror(errno), " (", action, ")"));
}

absl::Status WriteAll(const Descriptor& file, const std::string& path, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written = write(file.get(), text.data() + done, text.size() - done);
    if (written < 0 && errno != EINTR) return PathError(path, "write");
    if (written > 0) done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// Nothing where there is no file yet.
absl::StatusOr<std::string> ReadAll(const std::string& path) {
  absl::StatusOr<std::string> text = common::ReadFile(path);
  return absl::IsNotFound(text.status()) ? "" : text;
}

bool SameFile(const std::string& a, const std::string& b) {
  struct stat first {
  }, second{};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

int64_t CountLines(const std::string& text) {
  int64_t lines = 0;
  for (const char c : text) lines += c == '\n';
  return lines;
}

// Of the last line of a text that is cut; 0: it has none.
int64_t LastStep(const std::string& cut) {
  if (cut.empty()) return 0;
  const size_t before = cut.rfind('\n', cut.size() - 2);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return protocol::StepOfLine(absl::string_view(cut).substr(begin)).value_or(0);
}

}  // namespace

int64_t PublishedStep(const std::string& text, const v1::JobEpoch& epoch, int64_t start_step) {
  std::map<int64_t, std::optional<int64_t>> epochs;  // by step, of its last line
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const absl::string_view line = absl::string_view(text).substr(begin, end + 1 - begin);
    const std::optional<int64_t> step = protocol::StepOfLine(line);
    if (step.has_value() && *step > start_step) {
      epochs[*step] = protocol::EpochOfLine(line, epoch.uid());
    }
  }
  int64_t published = start_step;
  for (const auto& [step, of] : epochs) {
    if (step != published + 1 || of != epoch.epoch()) break;
    published = step;
  }
  return published;
}

std::string CutAtStep(const std::string& text, int64_t step) {
  std::map<int64_t, absl::string_view> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const absl::string_view line = absl::string_view(text).substr(begin, end + 1 - begin);
    const std::optional<int64_t> number = protocol::StepOfLine(line);
    if (number.has_value() && *number >= 1 && *number <= step) lines[*number] = line;
  }
  std::string kept;
  int64_t next = lines.empty() ? 0 : lines.begin()->first;
  for (const auto& [number, line] : lines) {
    if (number != next++) break;
    absl::StrAppend(&kept, line);
  }
  return kept;
}

absl::StatusOr<std::string> CutFile(const std::string& path, int64_t step,
                                    const std::string& fallback) {
  struct stat info {};
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) {
      errno = EISDIR;
      return PathError(path, "open");
    }
    return fallback;
  }
  std::string text;
  if (step > 0) {
    ASSIGN_OR_RETURN(text, ReadAll(path));
  }
  std::string kept = CutAtStep(text, step);
  if (CountLines(kept) < CountLines(fallback)) kept = fallback;
  RETURN_IF_ERROR(common::ReplaceFile(path, kept, /*durable=*/true));
  return kept;
}

absl::StatusOr<MetricsFiles::File> MetricsFiles::OpenFile(const std::string& path, int links) {
  const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | links;
  File file{path, Descriptor(open(path.c_str(), flags, 0644))};
  if (!file.descriptor.is_open()) return PathError(path, "open");
  return file;
}

absl::StatusOr<MetricsFiles> MetricsFiles::Open(const std::string& job_directory,
                                                const std::string& metrics_path,
                                                const std::string& epoch_folder, int64_t start_step,
                                                bool* missing) {
  const std::string own = absl::StrCat(job_directory, "/metrics.jsonl");
  std::vector<std::string> published = {own};
  if (!metrics_path.empty() && metrics_path != own && !SameFile(metrics_path, own)) {
    published.push_back(metrics_path);
  }
  // What any of them has of the records before the checkpoint, for those that lack some.
  std::string records;
  for (const std::string& path : published) {
    struct stat info {};
    if (start_step == 0 || stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    ASSIGN_OR_RETURN(const std::string text, ReadAll(path));
    const std::string kept = CutAtStep(text, start_step);
    if (CountLines(kept) > CountLines(records)) records = kept;
  }
  *missing = LastStep(records) < start_step;
  MetricsFiles files;
  ASSIGN_OR_RETURN(File epoch, OpenFile(absl::StrCat(epoch_folder, "/metrics.jsonl"), O_NOFOLLOW));
  files.files_.push_back(std::move(epoch));
  for (const std::string& path : published) {
    RETURN_IF_ERROR(CutFile(path, start_step, records).status());
    // A path that the user has named may be a link, such as /dev/stdout.
    ASSIGN_OR_RETURN(File file, OpenFile(path, path == own ? O_NOFOLLOW : 0));
    files.files_.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<MetricsFiles> MetricsFiles::Continue(const std::string& job_directory,
                                                    const std::string& epoch_folder,
                                                    const v1::JobEpoch& epoch, int64_t start_step,
                                                    int64_t* published, bool* missing) {
  ASSIGN_OR_RETURN(const std::string text, ReadAll(absl::StrCat(job_directory, "/metrics.jsonl")));
  *published = PublishedStep(text, epoch, start_step);
  const std::string before = CutAtStep(text, start_step), all = CutAtStep(text, *published);
  RETURN_IF_ERROR(common::ReplaceFile(absl::StrCat(epoch_folder, "/metrics.jsonl"),
                                      all.substr(std::min(before.size(), all.size())),
                                      /*durable=*/false));
  ASSIGN_OR_RETURN(MetricsFiles files, Open(job_directory, "", epoch_folder, *published, missing));
  files.job_uid_ = epoch.uid();
  return files;
}

absl::Status MetricsFiles::Append(const v1::StepRecord& record) {
  RETURN_IF_ERROR(AppendLine(protocol::StepLine(record, job_uid_)));
  written_ = record.step();
  return absl::OkStatus();
}

absl::Status MetricsFiles::AppendLine(const std::string& line) {
  for (const File& file : files_) {
    RETURN_IF_ERROR(WriteAll(file.descriptor, file.path, line));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MetricsFiles::Sync(int64_t /*step*/) {
  RETURN_IF_ERROR(Sync());
  return true;
}

absl::Status MetricsFiles::Sync() {
  for (const File& file : files_) {
    // EINVAL: a pipe or a terminal, which keeps nothing.
    if (fdatasync(file.descriptor.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return PathError(file.path, "fdatasync");
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
