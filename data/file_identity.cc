#include "data/file_identity.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/path_roots.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

constexpr int64_t kBlockBytes = int64_t{16} << 10;
constexpr int64_t kBlocksPerPart = 4;
constexpr int64_t kChunkBytes = int64_t{1} << 20;  // of what is read whole

absl::Status OpenError(int error, const std::string& path) {
  const std::string text = absl::StrCat(path, ": ", strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  if (error == ELOOP || error == EXDEV) return absl::InvalidArgumentError(text);
  return absl::UnavailableError(text);
}

class OpenFile {
 public:
  explicit OpenFile(const std::string& path)
      : path_(path),
        // Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        descriptor_(common::PathRoots::OfProcess().OpenFile(path, O_RDONLY | O_NONBLOCK)),
        error_(descriptor_ < 0 ? errno : 0),
        buffer_(static_cast<size_t>(kChunkBytes)) {}
  ~OpenFile() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  absl::StatusOr<int64_t> Size() const {
    if (descriptor_ < 0) return OpenError(error_, path_);
    struct stat status;
    if (fstat(descriptor_, &status) != 0) return OpenError(errno, path_);
    if (S_ISREG(status.st_mode)) return status.st_size;
    return absl::InvalidArgumentError(absl::StrCat(path_, ": is not a regular file"));
  }

  absl::Status Add(int64_t begin, int64_t end, common::Digester& digester) {
    while (begin < end) {
      const auto wanted = static_cast<size_t>(std::min(kChunkBytes, end - begin));
      const ssize_t got = pread(descriptor_, buffer_.data(), wanted, begin);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return absl::DataLossError(
            absl::StrCat(path_, ": cannot be read at byte ", begin, ": ", strerror(errno)));
      }
      if (got == 0) {
        return absl::DataLossError(
            absl::StrCat(path_, ": ends at byte ", begin, ": it became shorter while it was read"));
      }
      digester.Add(buffer_.data(), static_cast<size_t>(got));
      begin += got;
    }
    return absl::OkStatus();
  }

 private:
  const std::string& path_;
  const int descriptor_;
  const int error_;
  std::vector<char> buffer_;
};

// Where part `part` of a file begins. The product may exceed 64 bits.
int64_t BeginOf(int64_t part, int64_t bytes) {
  return static_cast<int64_t>(static_cast<__int128>(bytes) * part / kFileParts);
}

absl::StatusOr<std::string> DigestOfPart(int part, int64_t bytes, OpenFile& file) {
  const int64_t begin = BeginOf(part, bytes), end = BeginOf(part + 1, bytes);
  common::Digester digester;
  if (bytes <= kLargestReadWhole) {
    RETURN_IF_ERROR(file.Add(begin, end, digester));
    return digester.Finish();
  }
  const int64_t last = end - kBlockBytes;
  for (int64_t block = 0; block < kBlocksPerPart; ++block) {
    const int64_t at = begin + (last - begin) / (kBlocksPerPart - 1) * block;
    const int64_t from = block + 1 == kBlocksPerPart ? last : at;
    RETURN_IF_ERROR(file.Add(from, from + kBlockBytes, digester));
  }
  return digester.Finish();
}

}  // namespace

absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path,
                                          const std::vector<std::string>& companions) {
  OpenFile file(path);
  FileIdentity identity;
  ASSIGN_OR_RETURN(identity.bytes, file.Size());
  std::string all = absl::StrCat(identity.bytes);
  for (int part = 0; part < kFileParts; ++part) {
    ASSIGN_OR_RETURN(const std::string digest, DigestOfPart(part, identity.bytes, file));
    all += digest;
    identity.parts += digest.substr(0, kDigitsPerPart);
  }
  for (const std::string& companion : companions) {
    ASSIGN_OR_RETURN(const FileIdentity other, IdentifyFile(companion));
    all += other.digest;
  }
  identity.digest = common::DigestOf(all);
  return identity;
}

}  // namespace strata::data
