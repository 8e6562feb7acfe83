#include "worker/agent/machine/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {
namespace {

constexpr size_t kMostPending = 64 << 10;

}  // namespace

LogTail::LogTail(std::string path, bool from_end) : path_(std::move(path)) {
  struct stat info {};
  if (from_end && stat(path_.c_str(), &info) == 0) offset_ = info.st_size;
}

void LogTail::LeaveOut(int64_t bytes) {
  if (bytes <= 0) return;
  if (!pending_.empty() && pending_.back() != '\n') pending_ += '\n';
  absl::StrAppend(&pending_, "… ", bytes, " bytes of log left out …\n");
}

bool LogTail::ReadMore() {
  if (pending_.size() >= kMostPending) return false;
  const Descriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || fstat(file.get(), &info) != 0) return false;
  if (info.st_size < offset_) offset_ = 0;  // it began anew
  if (info.st_size - offset_ > kMostBehind) {
    LeaveOut(info.st_size - kMostBehind / 2 - offset_);
    offset_ = info.st_size - kMostBehind / 2;
  }
  char bytes[16 << 10];
  const ssize_t size = pread(file.get(), bytes, sizeof(bytes), offset_);
  if (size <= 0) return false;
  pending_.append(bytes, static_cast<size_t>(size));
  offset_ += size;
  // Writers append, so that they go on at the new end. One that is faster than its reader loses the
  // little that is between.
  const bool read_all = offset_ == info.st_size;
  if ((read_all ? info.st_size > kLargestFile : info.st_size > 2 * kLargestFile) &&
      ftruncate(file.get(), 0) == 0) {
    LeaveOut(info.st_size - offset_);
    offset_ = 0;
  }
  return true;
}

std::vector<std::string> LogTail::Read(size_t most, bool last) {
  std::vector<std::string> lines;
  bool more = true;
  while (lines.size() < most) {
    size_t end = pending_.find('\n');
    if (end == std::string::npos) {
      if (more && (more = ReadMore())) continue;
      // A line that does not end is cut rather than kept.
      const bool cut = pending_.size() >= kMostPending || (last && !pending_.empty());
      if (!cut) break;
      end = pending_.size();
    }
    lines.push_back(pending_.substr(0, std::min(end, kLongestLine)));
    pending_.erase(0, end + 1);
  }
  return lines;
}

}  // namespace strata::worker
