// Lines of files, read piece by piece as somebody takes them, while others append to the files.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_LINE_READER_H_
#define STRATA_CONTROLLER_SERVICE_FILES_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "common/path_roots.h"

namespace strata::controller {

// Not thread-safe. Files that are missing or fail are read as far as they can be.
class LineReader {
 public:
  LineReader() = default;
  ~LineReader();
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;

  // Appends a file to what is read: until there is no more when it is read. It is opened now,
  // beneath the roots, so it may be renamed later. False: it cannot be opened.
  bool Add(const common::PathRoots& roots, const std::string& path);
  // The same, but of what is there now the last `most` bytes at most, from a line's beginning on.
  bool AddTail(const common::PathRoots& roots, const std::string& path, int64_t most);
  // From now on Next reads so many bytes and then tells of no more lines: whoever offers an endless
  // file keeps a thread for that long only. At first there is no such limit.
  void Allow(int64_t bytes) { allowed_ = bytes; }
  // The next complete line without its end; longer ones than 1 MiB are left out. Nothing: no more,
  // or no more was allowed.
  std::optional<std::string> Next();
  // Whether all was read.
  bool at_end() const { return files_.empty(); }

 private:
  static constexpr size_t kPiece = 64 << 10;
  static constexpr size_t kLongest = 1 << 20;
  struct File {
    int descriptor;
    int64_t left;
    bool begins_inside;  // perhaps, of a line
  };
  bool Append(const common::PathRoots& roots, const std::string& path, std::optional<int64_t> most);
  bool Fill();

  std::deque<File> files_;
  std::string buffer_;
  size_t begin_ = 0;  // of what is not yet taken
  int64_t allowed_ = INT64_MAX;
  bool skipping_ = false;  // the rest of a line that is too long
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_LINE_READER_H_
