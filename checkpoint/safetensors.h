// The safetensors file format: 8 bytes little-endian header length, a JSON header (padded with
// spaces to 8 bytes) that gives each tensor's dtype, shape and data_offsets and string metadata
// under "__metadata__", then the tensors' bytes, little-endian and row-major.
#ifndef STRATA_CHECKPOINT_SAFETENSORS_H_
#define STRATA_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/dtype.h"
#include "checkpoint/file_system.h"
#include "common/digest.h"

namespace strata::checkpoint {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // row-major; empty for a scalar
  // Where the tensor's bytes are, from the start of the file. Set by writer and reader.
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Product of a shape. InvalidArgument: a negative extent, or more than 2^63 - 1 elements.
absl::StatusOr<int64_t> ElementCount(const std::vector<int64_t>& shape);

// Writes a file as a stream: header first, then the data of each entry in the order of entries().
class SafetensorsWriter {
 public:
  // Lays out `entries` (wider types first, else in the order given) and writes the header to
  // `file`.
  static absl::StatusOr<std::unique_ptr<SafetensorsWriter>> Create(
      std::unique_ptr<WritableFile> file, std::vector<SafetensorsEntry> entries,
      const SafetensorsMetadata& metadata);

  // The entries in file order, with offsets.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  // The next bytes of the data, in file order; any amount at a time.
  absl::Status Append(const void* bytes, size_t size);
  // Syncs and closes. Internal: not all the data was appended.
  absl::Status Finish();

  // Of what was written so far.
  int64_t size_bytes() const { return written_; }
  // Digests taken from the caller's memory, not from what the disk gives back: of the whole file
  // (after Finish), and of the 8 + N bytes of length and header.
  std::string digest() const { return digester_.Finish(); }
  const std::string& header_digest() const { return header_digest_; }

 private:
  SafetensorsWriter() = default;

  std::unique_ptr<WritableFile> file_;
  std::vector<SafetensorsEntry> entries_;
  common::Digester digester_;
  std::string header_digest_;
  int64_t written_ = 0;
  int64_t total_ = 0;
};

// Reads ranges of the tensors of a file. Strict: any file that the format's rules
// forbid (header longer than 100 MB, duplicate names, offsets that overlap, leave holes or do not
// match the shapes, bytes left over) is refused with InvalidArgument and the reason; nothing in
// a file can crash the process. Any thread may read.
class SafetensorsReader {
 public:
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Open(
      const std::string& path, FileSystem* files = PosixFileSystem());
  // Of a file that is open; `path` is its name in messages.
  static absl::StatusOr<std::unique_ptr<SafetensorsReader>> Of(std::unique_ptr<ReadableFile> file,
                                                               const std::string& path);
  SafetensorsReader(const SafetensorsReader&) = delete;
  SafetensorsReader& operator=(const SafetensorsReader&) = delete;

  const std::string& path() const { return path_; }
  // In file order.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Null if there is none of that name.
  const SafetensorsEntry* Find(const std::string& name) const;
  // Bytes [begin, begin + size) of the tensor's data.
  absl::Status ReadBytes(const SafetensorsEntry& entry, int64_t begin, int64_t size,
                         void* out) const;
  // Digest of length and header (8 + N bytes).
  const std::string& header_digest() const { return header_digest_; }
  int64_t size_bytes() const { return file_->size_bytes(); }
  // Reads the whole file. DataLoss: it is shorter than it was; Unavailable: the storage failed.
  absl::StatusOr<std::string> DigestWholeFile() const;

 private:
  SafetensorsReader() = default;

  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, size_t> by_name_;
  SafetensorsMetadata metadata_;
  std::string header_digest_;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_SAFETENSORS_H_
