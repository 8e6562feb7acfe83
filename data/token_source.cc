#include "data/token_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/path_roots.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

absl::Status FromErrno(int error, const std::string& path, const char* action) {
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(path, ": no such file"));
    case ENOTDIR:
      return absl::NotFoundError(absl::StrCat(path, ": no such file (part of the path is a file)"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(path, ": permission denied"));
    case ELOOP:
    case EXDEV:
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          ": a link, or a link on the way to it, which is not followed beneath the project's "
          "roots: name the path that it leads to"));
    default:
      return absl::UnavailableError(absl::StrCat(path, ": ", strerror(error), " (", action, ")"));
  }
}

// An open file that closes itself.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// All of [offset, offset + size), or an error.
absl::Status ReadFully(const File& file, const std::string& path, int64_t offset, int64_t size,
                       unsigned char* out) {
  while (size > 0) {
    const ssize_t got = pread(file.descriptor(), out, static_cast<size_t>(size), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::DataLossError(
          absl::StrCat(path, ": cannot be read at byte ", offset, ": ", strerror(errno)));
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path, ": ends at byte ", offset,
                                              ": it has become shorter since it was opened"));
    }
    offset += got, out += got, size -= got;
  }
  return absl::OkStatus();
}

// Text whose tokens are its bytes.
class ByteSource final : public TokenSource {
 public:
  ByteSource(std::string path, File file, int64_t bytes)
      : path_(std::move(path)), file_(std::move(file)), bytes_(bytes) {}

  const std::string& path() const override { return path_; }
  int64_t tokens() const override { return bytes_; }
  int64_t bytes() const override { return bytes_; }
  int64_t vocabulary() const override { return 256; }
  const char* unit() const override { return "bytes"; }

  absl::Status Read(int64_t begin, int64_t count, int32_t* tokens) const override {
    STRATA_CHECK(begin >= 0 && count >= 0 && begin <= bytes_ - count);
    // The bytes land at the buffer's end and are widened in place from its start: token i is
    // written to bytes [4i, 4i + 4), which reach byte 3 count + i only when i is the last one.
    unsigned char* const raw = reinterpret_cast<unsigned char*>(tokens) + 3 * count;
    RETURN_IF_ERROR(ReadFully(file_, path_, begin, count, raw));
    for (int64_t i = 0; i < count; ++i) {
      const int32_t token = raw[i];
      std::memcpy(tokens + i, &token, sizeof(token));
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const File file_;
  const int64_t bytes_;
};

// The kind of a token file that is not text, told by its first bytes or its name; null for text.
const char* KindOf(const std::string& path, const unsigned char* start, size_t size) {
  const auto begins_with = [&](const void* magic, size_t length) {
    return size >= length && std::memcmp(start, magic, length) == 0;
  };
  const auto begins_with_word = [&](uint32_t word) { return begins_with(&word, sizeof(word)); };
  if (begins_with("BIN.TOK\n", 8)) return "llmq token files";
  if (begins_with("MMIDIDX\0\0", 9)) return "Megatron index files";
  // llm.c: training and evaluation files of GPT-2 tokens, training files of Llama 3 tokens.
  if (begins_with_word(20240520) || begins_with_word(20240522) || begins_with_word(20240801)) {
    return "llm.c token files";
  }
  if (absl::EndsWith(path, ".bin")) return ".bin token files";
  if (absl::EndsWith(path, ".idx")) return ".idx token files";
  if (absl::EndsWith(path, ".jsonl")) return ".jsonl files";
  return nullptr;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TokenSource>> OpenTokenSource(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
  File file(common::PathRoots::OfProcess().OpenFile(path, O_RDONLY | O_NONBLOCK));
  if (file.descriptor() < 0) return FromErrno(errno, path, "open");
  struct stat status;
  if (fstat(file.descriptor(), &status) != 0) return FromErrno(errno, path, "stat");
  if (S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, not a file"));
  }
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file"));
  }
  if (status.st_size == 0) return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  unsigned char start[16];
  const int64_t known = std::min<int64_t>(sizeof(start), status.st_size);
  RETURN_IF_ERROR(ReadFully(file, path, 0, known, start));
  if (const char* kind = KindOf(path, start, static_cast<size_t>(known)); kind != nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": ", kind, " are not supported yet; text files are read as bytes"));
  }
  // Samples are read in random order: reading ahead would only fill the page cache.
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_RANDOM);
  return std::make_shared<const ByteSource>(path, std::move(file), status.st_size);
}

}  // namespace strata::data
