// The bytes of an input file, decompressed where it is .gz or .zst, from its beginning to its end.
#ifndef STRATA_DATA_PREPARE_INPUT_STREAM_H_
#define STRATA_DATA_PREPARE_INPUT_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace strata::data {

// Used by one thread.
class InputStream {
 public:
  // Errors as InputFile::Open. The first bytes tell whether the file is compressed.
  static absl::StatusOr<std::unique_ptr<InputStream>> Open(const std::string& path);
  virtual ~InputStream() = default;

  // Up to `size` > 0 bytes; 0 at the end. Errors name the path; InvalidArgument: the compressed
  // bytes are damaged or cut short.
  virtual absl::StatusOr<int64_t> Read(char* out, int64_t size) = 0;
  // Of the file, compressed or not: how much is read, and how much there is, in bytes.
  virtual int64_t done() const = 0;
  virtual int64_t total() const = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_INPUT_STREAM_H_
