#include "controller/service/files/line_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace strata::controller {

LineReader::LineReader(LineReader&& other) noexcept
    : files_(std::exchange(other.files_, {})),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      allowed_(other.allowed_),
      skipping_(other.skipping_) {}

LineReader::~LineReader() {
  for (const File& file : files_) close(file.descriptor);
}

bool LineReader::Add(const common::PathRoots& roots, const std::string& path) {
  return Append(roots, path, std::nullopt);
}

bool LineReader::AddTail(const common::PathRoots& roots, const std::string& path, int64_t most) {
  return Append(roots, path, most);
}

bool LineReader::Append(const common::PathRoots& roots, const std::string& path,
                        std::optional<int64_t> most) {
  // Users put files where these lie: no link of theirs shows what only this process may read.
  const int descriptor = roots.OpenFile(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW);
  if (descriptor < 0) return false;
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode) || info.st_nlink > 1) {
    close(descriptor);
    return false;
  }
  File file{descriptor, INT64_MAX, false};
  if (most.has_value()) {
    // One byte more: is it a line's end, nothing of the next line is left out.
    const int64_t begin = std::max<int64_t>(info.st_size - *most - 1, 0);
    file.left = info.st_size - begin;
    file.begins_inside = begin > 0 && lseek(descriptor, begin, SEEK_SET) == begin;
  }
  if (files_.empty()) skipping_ = file.begins_inside;
  files_.push_back(file);
  return true;
}

// Reads one piece; false at the end of the last file, or of what is allowed.
bool LineReader::Fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  while (!files_.empty()) {
    File& file = files_.front();
    if (allowed_ <= 0) return false;
    char piece[kPiece];
    const size_t wanted = static_cast<size_t>(std::min<int64_t>(kPiece, file.left));
    ssize_t size = 0;
    do {
      size = wanted == 0 ? 0 : read(file.descriptor, piece, wanted);
    } while (size < 0 && errno == EINTR);
    if (size > 0) {
      file.left -= size;
      allowed_ -= size;
      buffer_.append(piece, static_cast<size_t>(size));
      return true;
    }
    close(file.descriptor);
    files_.pop_front();
    buffer_.clear();  // a line that was never finished does not continue in the next file
    skipping_ = !files_.empty() && files_.front().begins_inside;
  }
  return false;
}

std::optional<std::string> LineReader::Next() {
  for (;;) {
    const size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(begin_, end - begin_);
      begin_ = end + 1;
      if (!std::exchange(skipping_, false) && line.size() <= kLongest) return line;
    } else {
      if (buffer_.size() - begin_ > kLongest) {
        skipping_ = true;
        begin_ = buffer_.size();
      }
      if (!Fill()) return std::nullopt;
    }
  }
}

}  // namespace strata::controller
