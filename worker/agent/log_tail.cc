#include "worker/agent/log_tail.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "worker/agent/descriptor.h"

namespace strata::worker {
namespace {

constexpr size_t kMostPending = 64 << 10;

}  // namespace

LogTail::LogTail(std::string path, bool from_end) : path_(std::move(path)) {
  struct stat info {};
  if (from_end && stat(path_.c_str(), &info) == 0) offset_ = info.st_size;
}

void LogTail::ReadMore() {
  if (pending_.size() >= kMostPending) return;
  const Descriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || fstat(file.get(), &info) != 0) return;
  if (info.st_size < offset_) offset_ = 0;  // it began anew
  char bytes[16 << 10];
  const ssize_t size = pread(file.get(), bytes, sizeof(bytes), offset_);
  if (size <= 0) return;
  pending_.append(bytes, static_cast<size_t>(size));
  offset_ += size;
  // Writers append, so that they go on at the new end.
  if (offset_ == info.st_size && offset_ > kLargestFile && ftruncate(file.get(), 0) == 0) {
    offset_ = 0;
  }
}

std::vector<std::string> LogTail::Read(size_t most, bool last) {
  std::vector<std::string> lines;
  ReadMore();
  while (lines.size() < most) {
    size_t end = pending_.find('\n');
    if (end == std::string::npos) {
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
