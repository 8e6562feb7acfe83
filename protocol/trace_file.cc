#include "protocol/trace_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/path_roots.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "protocol/trace_layout.h"

namespace strata::protocol {
namespace {

constexpr mode_t kFolderMode = 0777, kFileMode = 0666;  // less the umask

absl::Status WriteAll(int file, const std::string& path, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno != EINTR) return common::FileError(path, "write", errno);
    if (written <= 0) continue;
    at += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

// A file that grows under a name of its own, and takes its place once it is complete.
class NewFile {
 public:
  static absl::StatusOr<NewFile> Create(const std::string& path) {
    const std::string folder = path.substr(0, path.rfind('/'));
    const int made = common::PathRoots::OfProcess().MakeFolders(folder, kFolderMode);
    if (made < 0) return common::FileError(folder, "create", errno);
    close(made);
    const int file = common::PathRoots::OfProcess().OpenFile(
        path + ".new", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW, kFileMode);
    if (file < 0) return common::FileError(path, "create", errno);
    return NewFile(path, file);
  }
  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() {
    if (file_ >= 0) close(file_);
  }

  int file() const { return file_; }

  absl::Status Write(const TraceFileHeader& header, const std::string& message) {
    RETURN_IF_ERROR(WriteAll(file_, path_, &header, sizeof(header)));
    return WriteAll(file_, path_, message.data(), message.size());
  }

  absl::Status Finish() {
    const common::PathRoots& roots = common::PathRoots::OfProcess();
    const common::PathRoots::Place from = roots.OpenParent(path_ + ".new"),
                                   to = roots.OpenParent(path_);
    if (from.folder() == -1 || to.folder() == -1 ||
        renameat(from.folder(), from.name(), to.folder(), to.name()) != 0) {
      return common::FileError(path_, "rename", errno);
    }
    return absl::OkStatus();
  }

 private:
  NewFile(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
};

TraceFileHeader HeaderOf(const std::string& message, const char* magic, uint64_t records) {
  TraceFileHeader header = {};
  std::memcpy(header.magic, magic, sizeof(header.magic));
  header.version = kTraceVersion;
  header.record_bytes = sizeof(TraceRecord);
  header.message_bytes = message.size();
  header.records = records;
  header.records_offset = RecordsOffset(message.size());
  const std::string digest = common::DigestOf(message);
  std::memcpy(header.digest, digest.data(), sizeof(header.digest));
  return header;
}

absl::Status CheckRoom(const std::string& path, const std::string& message, int64_t records) {
  if (static_cast<int64_t>(message.size()) > kMostTraceHeadBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(path, ": the names of what runs take ",
                                                     message.size(), " bytes, at most ",
                                                     kMostTraceHeadBytes, " are kept"));
  }
  if (records * static_cast<int64_t>(sizeof(TraceRecord)) > kMostTraceBytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        path, ": ", records, " records do not fit into the ", kMostTraceBytes, " bytes of a ring"));
  }
  return absl::OkStatus();
}

}  // namespace

std::string TraceFolder(const std::string& job_directory) { return job_directory + "/trace"; }
std::string TracePath(const std::string& job_directory, int rank) {
  return absl::StrCat(TraceFolder(job_directory), "/rank-", rank, ".trace");
}
std::string PredictedTracePath(const std::string& job_directory) {
  return TraceFolder(job_directory) + "/predicted";
}

absl::StatusOr<std::unique_ptr<TraceFile>> TraceFile::Create(const std::string& job_directory,
                                                             const v1::TraceHead& head,
                                                             int64_t records) {
  const std::string path = TracePath(job_directory, head.rank());
  const std::string message = head.SerializeAsString();
  RETURN_IF_ERROR(CheckRoom(path, message, records));
  ASSIGN_OR_RETURN(NewFile made, NewFile::Create(path));
  const auto count = static_cast<size_t>(records);
  const TraceFileHeader header = HeaderOf(message, kTraceMagic, count);
  RETURN_IF_ERROR(made.Write(header, message));
  const size_t bytes = count * sizeof(TraceRecord);
  const auto offset = static_cast<off_t>(header.records_offset);
  // On disk now: a full one is told here, not by a signal in the middle of a step.
  if (const int error = posix_fallocate(made.file(), offset, static_cast<off_t>(bytes)); error) {
    return common::FileError(path, "allocate", error);
  }
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.file(), offset);
  if (mapped == MAP_FAILED) return common::FileError(path, "map", errno);
  std::memset(mapped, 0, bytes);  // touched before the process's memory is measured
  std::unique_ptr<TraceFile> file(
      new TraceFile(absl::MakeSpan(static_cast<TraceRecord*>(mapped), count)));
  RETURN_IF_ERROR(made.Finish());
  return file;
}

TraceFile::~TraceFile() { munmap(records_.data(), records_.size() * sizeof(TraceRecord)); }

absl::Status WritePredictedTrace(const std::string& job_directory,
                                 const v1::PredictedTrace& predicted) {
  const std::string path = PredictedTracePath(job_directory);
  const std::string message = predicted.SerializeAsString();
  RETURN_IF_ERROR(CheckRoom(path, message, 0));
  ASSIGN_OR_RETURN(NewFile made, NewFile::Create(path));
  RETURN_IF_ERROR(made.Write(HeaderOf(message, kPredictedMagic, 0), message));
  return made.Finish();
}

}  // namespace strata::protocol
