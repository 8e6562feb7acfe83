#include "data/file_identity.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/digest.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"

namespace strata::data {
namespace {

constexpr int64_t kBlockBytes = int64_t{16} << 10;
constexpr int64_t kBlocksPerPart = 4;
constexpr int64_t kChunkBytes = int64_t{1} << 20;  // of what is read whole

absl::Status Add(const InputFile& file, int64_t begin, int64_t end, std::vector<char>& buffer,
                 common::Digester& digester) {
  for (int64_t size = 0; begin < end; begin += size) {
    size = std::min(static_cast<int64_t>(buffer.size()), end - begin);
    RETURN_IF_ERROR(file.ReadAt(begin, size, buffer.data()));
    digester.Add(buffer.data(), static_cast<size_t>(size));
  }
  return absl::OkStatus();
}

// Where part `part` of a file begins. The product may exceed 64 bits.
int64_t BeginOf(int64_t part, int64_t bytes) {
  return static_cast<int64_t>(static_cast<__int128>(bytes) * part / kFileParts);
}

absl::StatusOr<std::string> DigestOfPart(int part, const InputFile& file,
                                         std::vector<char>& buffer) {
  const int64_t bytes = file.size();
  const int64_t begin = BeginOf(part, bytes), end = BeginOf(part + 1, bytes);
  common::Digester digester;
  if (bytes <= kLargestReadWhole) {
    RETURN_IF_ERROR(Add(file, begin, end, buffer, digester));
    return digester.Finish();
  }
  const int64_t last = end - kBlockBytes;
  for (int64_t block = 0; block < kBlocksPerPart; ++block) {
    const int64_t at = begin + (last - begin) / (kBlocksPerPart - 1) * block;
    const int64_t from = block + 1 == kBlocksPerPart ? last : at;
    RETURN_IF_ERROR(Add(file, from, from + kBlockBytes, buffer, digester));
  }
  return digester.Finish();
}

}  // namespace

absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path,
                                          const std::vector<std::string>& companions) {
  ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  std::vector<char> buffer(static_cast<size_t>(kChunkBytes));
  FileIdentity identity;
  identity.bytes = file.size();
  std::string all = absl::StrCat(identity.bytes);
  for (int part = 0; part < kFileParts; ++part) {
    ASSIGN_OR_RETURN(const std::string digest, DigestOfPart(part, file, buffer));
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
