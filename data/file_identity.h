// Whether a file of tokens is still the one that a job began with: its size, and a digest of its
// content that can be made again and again at little cost.
//
// A file is cut into kFileParts equal parts. Of a file of at most kLargestReadWhole bytes all is
// read, so that any changed byte is found. Of a longer one 256 blocks of 16 KiB are read, spread
// evenly over each part from its first byte to its last: what is appended, cut off, replaced or
// written anew is found; a change that leaves the size and all of these blocks as they were is not.
#ifndef STRATA_DATA_FILE_IDENTITY_H_
#define STRATA_DATA_FILE_IDENTITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::data {

inline constexpr int kFileParts = 64;
inline constexpr int kDigitsPerPart = 4;
inline constexpr int64_t kLargestReadWhole = int64_t{64} << 20;

struct FileIdentity {
  int64_t bytes = 0;
  std::string digest;  // XXH3-128 of size and parts: 32 hexadecimal digits
  // The first kDigitsPerPart digits of each part's digest: where two files differ.
  std::string parts;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// `companions`: files that its tokens depend on too (the index of a Megatron file); they count in
// the digest alone. Errors of InputFile.
absl::StatusOr<FileIdentity> IdentifyFile(const std::string& path,
                                          const std::vector<std::string>& companions = {});

}  // namespace strata::data

#endif  // STRATA_DATA_FILE_IDENTITY_H_
