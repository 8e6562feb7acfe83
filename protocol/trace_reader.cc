#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/digest.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "protocol/trace_file.h"
#include "protocol/trace_layout.h"

namespace strata::protocol {
namespace {

absl::Status Damaged(const std::string& path, uint64_t at, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": byte ", at, ": ", what));
}

// A file open for reading; closes it.
class OpenTrace {
 public:
  static absl::StatusOr<OpenTrace> Open(const std::string& path) {
    // Not held up by a pipe that somebody has put there.
    const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return absl::NotFoundError(path + ": not found");
    if (file < 0) return common::FileError(path, "open", errno);
    OpenTrace opened(path, file);
    struct stat status {};
    if (fstat(file, &status) != 0) return common::FileError(path, "stat", errno);
    if (!S_ISREG(status.st_mode)) return Damaged(path, 0, "no regular file");
    opened.size_ = static_cast<uint64_t>(status.st_size);
    return opened;
  }
  OpenTrace(OpenTrace&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(other.size_) {}
  OpenTrace& operator=(OpenTrace&&) = delete;
  ~OpenTrace() {
    if (file_ >= 0) close(file_);
  }

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }

  absl::Status Read(uint64_t offset, void* bytes, size_t size) const {
    char* at = static_cast<char*>(bytes);
    while (size > 0) {
      const ssize_t got = pread(file_, at, size, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return common::FileError(path_, "read", errno);
      if (got == 0) return Damaged(path_, offset, "the file ends");
      at += got;
      offset += static_cast<uint64_t>(got);
      size -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

  // The header and the message behind it, which the digest says are whole.
  absl::StatusOr<TraceFileHeader> ReadHeader(const char* magic, google::protobuf::Message& message,
                                             uint64_t most_records) const;

 private:
  OpenTrace(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
  uint64_t size_ = 0;
};

absl::StatusOr<TraceFileHeader> OpenTrace::ReadHeader(const char* magic,
                                                      google::protobuf::Message& message,
                                                      uint64_t most_records) const {
  TraceFileHeader header = {};
  RETURN_IF_ERROR(Read(0, &header, sizeof(header)));
  if (std::memcmp(header.magic, magic, sizeof(header.magic)) != 0) {
    return Damaged(path_, 0, "not a trace of Strata's");
  }
  if (header.version != kTraceVersion || header.record_bytes != sizeof(TraceRecord)) {
    return Damaged(path_, sizeof(header.magic),
                   absl::StrCat("format ", header.version, " of ", header.record_bytes,
                                " bytes a record, this program reads ", kTraceVersion, " of ",
                                sizeof(TraceRecord), " — use the release that wrote it"));
  }
  if (header.message_bytes > static_cast<uint64_t>(kMostTraceHeadBytes) ||
      header.records > most_records ||
      header.records_offset != RecordsOffset(header.message_bytes) ||
      size_ < sizeof(header) + header.message_bytes ||
      (header.records > 0 &&
       size_ < header.records_offset + header.records * sizeof(TraceRecord))) {
    return Damaged(path_, 16,
                   absl::StrCat("sizes that cannot be: a message of ", header.message_bytes,
                                " bytes and ", header.records, " records at ",
                                header.records_offset, " in a file of ", size_));
  }
  std::string bytes(header.message_bytes, '\0');
  RETURN_IF_ERROR(Read(sizeof(header), bytes.data(), bytes.size()));
  const absl::string_view digest(header.digest, sizeof(header.digest));
  if (common::DigestOf(bytes) != digest || !message.ParseFromString(bytes)) {
    return Damaged(path_, sizeof(header), "the message is damaged");
  }
  return header;
}

bool IsIndex(int64_t index, int64_t size) { return index >= 0 && index < size; }

// Empty: nothing is wrong.
std::string ProblemIn(const v1::TraceHead& head, const v1::TraceProgram& program) {
  for (const v1::TraceAction& action : program.actions()) {
    if (!IsIndex(action.instruction(), program.instructions_size())) return "instruction";
    if (!IsIndex(action.stream(), head.streams_size())) return "stream";
    if (!action.has_communication()) continue;
    if (!IsIndex(action.communication().group(), head.groups_size())) return "group";
    if (!IsIndex(action.communication().peer(), head.ranks())) return "peer";
  }
  return "";
}

std::string ProblemIn(const v1::TraceHead& head) {
  if (!IsIndex(head.rank(), head.ranks())) return "rank";
  if (head.stage() < 0) return "stage";
  if (!std::isfinite(head.clock_offset_seconds())) return "clock offset";
  for (const v1::TraceGroup& group : head.groups()) {
    for (const int member : group.members()) {
      if (!IsIndex(member, head.ranks())) return "member";
    }
  }
  for (const v1::TraceProgram& program : head.programs()) {
    if (std::string problem = ProblemIn(head, program); !problem.empty()) return problem;
  }
  return "";
}

std::string ProblemIn(const TraceRecord& record, const v1::TraceHead& head) {
  if (!IsIndex(record.program, head.programs_size())) return "program";
  if (!IsIndex(record.action, head.programs(record.program).actions_size())) return "action";
  if (record.step < 0) return "step";
  if (!std::isfinite(record.begin) || !std::isfinite(record.end) || record.begin > record.end) {
    return "time";
  }
  return "";
}

// All are read three times: a record was not written while it was read the second time if its
// number was the same before and afterwards.
absl::StatusOr<std::vector<TraceRecord>> ReadRecords(const OpenTrace& file,
                                                     const TraceFileHeader& header,
                                                     const v1::TraceHead& head) {
  const size_t count = header.records, bytes = count * sizeof(TraceRecord);
  std::vector<TraceRecord> before(count), during(count), after(count);
  for (auto* records : {&before, &during, &after}) {
    RETURN_IF_ERROR(file.Read(header.records_offset, records->data(), bytes));
  }
  std::vector<TraceRecord> kept;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t number = before[i].number;
    if (number == 0 || during[i].number != number || after[i].number != number) continue;
    const uint64_t at = header.records_offset + i * sizeof(TraceRecord);
    if ((number - 1) % count != i) {
      return Damaged(file.path(), at, absl::StrCat("record ", number, " is at another's place"));
    }
    if (const std::string problem = ProblemIn(during[i], head); !problem.empty()) {
      return Damaged(file.path(), at,
                     absl::StrCat("record ", number, ": the ", problem, " cannot be"));
    }
    kept.push_back(during[i]);
  }
  std::sort(kept.begin(), kept.end(),
            [](const TraceRecord& a, const TraceRecord& b) { return a.number < b.number; });
  return kept;
}

// Ranks that have a file, ascending.
std::vector<int> RanksIn(const std::string& folder) {
  std::vector<int> ranks;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    absl::string_view digits = name;
    int rank = 0;
    if (absl::ConsumePrefix(&digits, "rank-") && absl::ConsumeSuffix(&digits, ".trace") &&
        absl::SimpleAtoi(digits, &rank) && rank >= 0 && rank < kMostTracedRanks &&
        absl::StrCat("rank-", rank, ".trace") == name) {
      ranks.push_back(rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace

absl::StatusOr<RankTrace> ReadTraceFile(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenTrace file, OpenTrace::Open(path));
  RankTrace trace;
  ASSIGN_OR_RETURN(const TraceFileHeader header,
                   file.ReadHeader(kTraceMagic, trace.head, kMostTraceBytes / sizeof(TraceRecord)));
  if (const std::string problem = ProblemIn(trace.head); !problem.empty()) {
    return Damaged(path, sizeof(header), absl::StrCat("the ", problem, " cannot be"));
  }
  ASSIGN_OR_RETURN(trace.records, ReadRecords(file, header, trace.head));
  return trace;
}

absl::StatusOr<v1::PredictedTrace> ReadPredictedTrace(const std::string& path) {
  ASSIGN_OR_RETURN(const OpenTrace file, OpenTrace::Open(path));
  v1::PredictedTrace predicted;
  RETURN_IF_ERROR(file.ReadHeader(kPredictedMagic, predicted, 0).status());
  bool good = std::isfinite(predicted.step_seconds()) && predicted.step_seconds() >= 0;
  for (const v1::PredictedStage& stage : predicted.stages()) {
    good = good && stage.begin_seconds_size() == stage.end_seconds_size();
    for (int a = 0; good && a < stage.begin_seconds_size(); ++a) {
      const double begin = stage.begin_seconds(a), end = stage.end_seconds(a);
      good = std::isfinite(begin) && std::isfinite(end) && begin <= end;
    }
  }
  if (!good) return Damaged(path, sizeof(TraceFileHeader), "times that cannot be");
  return predicted;
}

absl::StatusOr<JobTrace> ReadJobTrace(const std::string& job_directory) {
  const std::string folder = TraceFolder(job_directory);
  std::vector<RankTrace> found;
  int64_t epoch = 0;
  for (const int rank : RanksIn(folder)) {
    const std::string path = TracePath(job_directory, rank);
    ASSIGN_OR_RETURN(found.emplace_back(), ReadTraceFile(path));
    if (found.back().head.rank() != rank) {
      return Damaged(path, sizeof(TraceFileHeader), "this is another rank's");
    }
    epoch = std::max(epoch, found.back().head.epoch());
  }
  if (found.empty()) return absl::NotFoundError(folder + ": no rank has left a trace there");
  JobTrace job;
  for (RankTrace& trace : found) {
    if (trace.head.epoch() == epoch) job.ranks.push_back(std::move(trace));
  }
  const int ranks = std::min(job.ranks.front().head.ranks(), kMostTracedRanks);
  for (int rank = 0; rank < ranks; ++rank) {
    const bool there = std::any_of(job.ranks.begin(), job.ranks.end(),
                                   [rank](const RankTrace& t) { return t.head.rank() == rank; });
    if (!there) job.missing.push_back(rank);
  }
  absl::StatusOr<v1::PredictedTrace> predicted =
      ReadPredictedTrace(PredictedTracePath(job_directory));
  if (predicted.ok() && predicted->epoch() == epoch) job.predicted = *std::move(predicted);
  if (!predicted.ok() && !absl::IsNotFound(predicted.status())) return predicted.status();
  return job;
}

}  // namespace strata::protocol
