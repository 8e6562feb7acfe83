// Lines of files, read piece by piece as somebody takes them, while others append to the files.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_LINE_READER_H_
#define STRATA_CONTROLLER_SERVICE_FILES_LINE_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

namespace strata::controller {

// Not thread-safe. Files that are missing or fail are read as far as they can be.
class LineReader {
 public:
  LineReader() = default;
  ~LineReader();
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;

  // Appends a file to what is read: its bytes until `end` (default: until there are no more when
  // they are read). It is opened now, so it may be renamed later. False: it cannot be opened.
  bool Add(const std::string& path, int64_t end = INT64_MAX);
  // The next complete line without its end; longer ones than 1 MiB are left out. Nothing: no more.
  std::optional<std::string> Next();

 private:
  static constexpr size_t kPiece = 64 << 10;
  static constexpr size_t kLongest = 1 << 20;
  struct File {
    int descriptor;
    int64_t left;
  };
  bool Fill();

  std::deque<File> files_;
  std::string buffer_;
  size_t begin_ = 0;       // of what is not yet taken
  bool skipping_ = false;  // the rest of a line that is too long
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_LINE_READER_H_
