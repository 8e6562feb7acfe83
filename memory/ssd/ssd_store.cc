#include "memory/ssd/ssd_store.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"

namespace strata::memory {
namespace {

constexpr int64_t kMostRequestBytes = 1 << 30;
constexpr int kMostDepth = 4096;

bool IsWhole(int64_t bytes) { return bytes % kSsdBlockBytes == 0; }

absl::Status CheckOptions(const SsdOptions& options) {
  if (options.paths.empty()) return absl::InvalidArgumentError("the SSD tier has no path");
  if (options.request_bytes <= 0 || options.stripe_bytes <= 0 || options.queue_depth <= 0 ||
      !IsWhole(options.request_bytes) || !IsWhole(options.stripe_bytes) ||
      options.request_bytes > kMostRequestBytes ||
      options.queue_depth > kMostDepth / static_cast<int>(options.paths.size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "requests of ", options.request_bytes, " bytes at a depth of ", options.queue_depth,
        ", stripes of ", options.stripe_bytes, " — sizes are multiples of ", kSsdBlockBytes,
        ", all are positive, requests of ", kMostRequestBytes, " bytes and a depth of ", kMostDepth,
        " for all paths the most"));
  }
  if (options.in_flight_bytes < 0 ||
      (options.write_rate != 0 && !(options.write_rate >= IoScheduler::kSlowestWriteRate))) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.in_flight_bytes, " bytes in flight, ", options.write_rate,
        " bytes per second to write — neither is negative; 0 leaves them to the queues' depth and "
        "to the disk; ",
        IoScheduler::kSlowestWriteRate, " bytes per second are the fewest"));
  }
  return absl::OkStatus();
}

absl::Status CheckExtents(const std::vector<SsdExtent>& extents) {
  int64_t end = 0;
  for (const SsdExtent& extent : extents) {
    if (extent.offset < end || extent.bytes <= 0 || !IsWhole(extent.offset) ||
        !IsWhole(extent.bytes)) {
      return absl::InvalidArgumentError(absl::StrCat("bytes [", extent.offset, ", ",
                                                     extent.offset + extent.bytes,
                                                     ") are no extent behind byte ", end));
    }
    end = extent.offset + extent.bytes;
  }
  return absl::OkStatus();
}

// Before anything is taken: a disk that is full for a moment harms others. An error's message;
// empty: there is room, or the file system does not say.
std::string LackOfRoom(int file, int64_t bytes) {
  struct statvfs disk {};
  if (fstatvfs(file, &disk) != 0 || disk.f_blocks == 0) return "";
  const auto free = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
  if (bytes <= free) return "";
  return absl::StrCat(", ", free, " are free — make room, or add a path");
}

int Allocate(int file, int64_t bytes) {
  int failed = EINTR;
  while (failed == EINTR) failed = bytes == 0 ? 0 : posix_fallocate(file, 0, bytes);
  return failed;
}

// A file without a name. EOPNOTSUPP and EISDIR: the file system makes none; one that loses its
// name at once does as well.
int OpenNameless(const std::string& directory) {
  const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string name = directory + "/strata-ssd-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

// Stripes as long as asked for, but short enough for every path to get some, and for the paths'
// sizes to be used up.
absl::StatusOr<Stripes> CutIntoStripes(const std::vector<int64_t>& limits, int64_t stripe_bytes,
                                       int64_t bytes) {
  const auto paths = static_cast<int64_t>(limits.size());
  const int64_t share = common::RoundUp(common::CeilDivide(bytes, paths), kSsdBlockBytes);
  int64_t stripe = std::max(kSsdBlockBytes, std::min(stripe_bytes, share));
  while (true) {
    absl::StatusOr<Stripes> stripes = Stripes::Create(limits, stripe, bytes);
    if (stripes.ok() || stripe == kSsdBlockBytes) return stripes;
    stripe = std::max(kSsdBlockBytes, stripe / 2 / kSsdBlockBytes * kSsdBlockBytes);
  }
}

}  // namespace

const char* Name(IoBackendKind kind) {
  static constexpr const char* kNames[] = {"auto", "io_uring", "aio", "threads"};
  return kNames[static_cast<int>(kind)];
}

absl::StatusOr<std::unique_ptr<SsdStore>> SsdStore::Create(SsdOptions options,
                                                           std::vector<SsdExtent> extents) {
  RETURN_IF_ERROR(CheckOptions(options));
  RETURN_IF_ERROR(CheckExtents(extents));
  static const common::MonotonicClock monotonic;
  if (options.clock == nullptr) options.clock = &monotonic;
  if (options.in_flight_bytes == 0) {
    options.in_flight_bytes =
        options.request_bytes * options.queue_depth * static_cast<int64_t>(options.paths.size());
  }
  const int64_t bytes = extents.empty() ? 0 : extents.back().offset + extents.back().bytes;
  std::vector<int64_t> limits;
  for (const SsdPath& path : options.paths) limits.push_back(path.limit_bytes);
  ASSIGN_OR_RETURN(Stripes stripes, CutIntoStripes(limits, options.stripe_bytes, bytes));
  std::unique_ptr<SsdStore> store(new SsdStore(std::move(options), std::move(stripes), bytes));
  for (const SsdExtent& extent : extents) store->extents_.push_back({.range = extent});
  RETURN_IF_ERROR(store->OpenFiles());
  RETURN_IF_ERROR(store->ChooseBackend());
  return store;
}

SsdStore::~SsdStore() {
  for (const int file : files_) close(file);
}

absl::Status SsdStore::OpenFiles() {
  for (size_t p = 0; p < options_.paths.size(); ++p) {
    const SsdPath& path = options_.paths[p];
    ASSIGN_OR_RETURN(const int file, OpenFile(path));
    files_.push_back(file);
    const int64_t bytes = stripes_.file_bytes(static_cast<int>(p));
    const std::string lack = LackOfRoom(file, bytes);
    const int failed = lack.empty() ? Allocate(file, bytes) : ENOSPC;
    if (failed != 0) {
      return absl::ErrnoToStatus(
          failed, absl::StrCat(path.directory, ": ", bytes, " bytes for the SSD tier", lack));
    }
    // Only now: what stands in for allocation where a file system has none writes single bytes.
    direct_ &= fcntl(file, F_SETFL, O_DIRECT) == 0;
  }
  return absl::OkStatus();
}

absl::StatusOr<int> SsdStore::OpenFile(const SsdPath& path) {
  const int file = OpenNameless(path.directory);
  if (file >= 0) return file;
  return absl::ErrnoToStatus(errno, absl::StrCat(path.directory, ": a file for the SSD tier"));
}

std::unique_ptr<IoBackend> SsdStore::MakeBackend(IoBackendKind kind) const {
  switch (kind) {
    case IoBackendKind::kUring:
      return MakeUringBackend(requests_at_once());
    case IoBackendKind::kAio:
      return MakeAioBackend(requests_at_once());
    case IoBackendKind::kThreads:
    case IoBackendKind::kAuto:
      break;
  }
  return MakeThreadsBackend(requests_at_once());
}

// Whether it can be set up says less than a request that comes back.
absl::Status SsdStore::ChooseBackend() {
  const auto works = [this](IoBackendKind kind) -> absl::Status {
    const std::unique_ptr<IoBackend> backend = MakeBackend(kind);
    alignas(kSsdBlockBytes) std::byte block[kSsdBlockBytes];
    if (bytes_ == 0) return absl::OkStatus();
    RETURN_IF_ERROR(backend->Submit(
        {.file = files_[stripes_.Find(0).file], .data = block, .bytes = kSsdBlockBytes}));
    IoCompletion done;
    RETURN_IF_ERROR(backend->Wait(absl::MakeSpan(&done, 1)).status());
    if (done.result == kSsdBlockBytes) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(Name(kind), " read ", done.result, " of ",
                                               kSsdBlockBytes, " bytes of ", Where(0)));
  };
  if (options_.backend != IoBackendKind::kAuto) return works(options_.backend);
  for (const IoBackendKind kind :
       {IoBackendKind::kUring, IoBackendKind::kAio, IoBackendKind::kThreads}) {
    options_.backend = kind;
    const absl::Status status = works(kind);
    if (status.ok() || kind == IoBackendKind::kThreads) return status;
  }
  return absl::OkStatus();
}

std::unique_ptr<SsdQueue> SsdStore::OpenQueue() {
  std::unique_ptr<IoBackend> backend = MakeBackend(options_.backend);
  if (options_.around_backend) backend = options_.around_backend(std::move(backend));
  return std::unique_ptr<SsdQueue>(new SsdQueue(this, std::move(backend)));
}

SsdCounters SsdStore::counters() const {
  const double now = options_.clock->Now();
  std::vector<PathCounters> paths;
  for (const PathLoad& load : loads_) paths.push_back(load.counters(now));
  return {.bytes_read = bytes_read_,
          .bytes_written = bytes_written_,
          .read_seconds = static_cast<double>(read_nanos_) * 1e-9,
          .write_seconds = static_cast<double>(write_nanos_) * 1e-9,
          .processor_seconds = static_cast<double>(processor_nanos_) * 1e-9,
          .io = scheduler_.counters(),
          .paths = std::move(paths)};
}

void SsdStore::BeginPeriod() {
  scheduler_.BeginPeriod();
  for (PathLoad& load : loads_) load.BeginPeriod();
}

absl::StatusOr<absl::Span<SsdStore::Extent>> SsdStore::Find(int64_t offset, int64_t bytes) {
  const auto first =
      std::lower_bound(extents_.begin(), extents_.end(), offset,
                       [](const Extent& extent, int64_t at) { return extent.range.offset < at; });
  auto last = first;
  int64_t end = offset;
  while (last != extents_.end() && last->range.offset == end && end < offset + bytes) {
    end += last->range.bytes;
    ++last;
  }
  if (last != first && end == offset + bytes) return absl::MakeSpan(&*first, last - first);
  return absl::InvalidArgumentError(absl::StrCat("bytes [", offset, ", ", offset + bytes,
                                                 ") of the SSD tier are no row of its extents"));
}

std::vector<SsdExtent> SsdStore::ExtentsOf(int64_t offset, int64_t bytes) const {
  std::vector<SsdExtent> found;
  auto extent =
      std::lower_bound(extents_.begin(), extents_.end(), offset,
                       [](const Extent& before, int64_t at) { return before.range.offset < at; });
  for (; extent != extents_.end() && extent->range.offset < offset + bytes; ++extent) {
    found.push_back(extent->range);
  }
  return found;
}

std::string SsdStore::Where(int64_t offset) const {
  const Stripes::Place place = stripes_.Find(offset);
  return absl::StrCat(options_.paths[place.file].directory, ", byte ", place.offset,
                      " of its file");
}

}  // namespace strata::memory
