// A file that grows at its end while its final name still belongs to what was there before.
#ifndef STRATA_DATA_FILES_OUTPUT_FILE_H_
#define STRATA_DATA_FILES_OUTPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/descriptor.h"

namespace strata::data {

// Used by one thread. Errors name the path; InvalidArgument: one that a person must change;
// Aborted: a full disk and the like, or another process that writes the file.
class OutputFile {
 public:
  // Appends from byte `kept` on: 0, or what an earlier attempt has written and synced. The file is
  // made where there is none; it stays locked against other writers while this lives. DataLoss:
  // it is shorter than `kept`.
  static absl::StatusOr<OutputFile> Open(const std::string& path, int64_t kept);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return written_ + static_cast<int64_t>(buffer_.size()); }

  absl::Status Append(const void* bytes, int64_t size);
  // Leaves zeros up to `size`.
  absl::Status Skip(int64_t size);
  // Replaces bytes; they may lie at the end or before it.
  absl::Status WriteAt(int64_t offset, const void* bytes, int64_t size);
  // Reads bytes written and flushed.
  absl::Status ReadAt(int64_t offset, int64_t size, void* out) const;
  // Hands all of it to the operating system.
  absl::Status Flush();
  // All of it survives a crash of the machine.
  absl::Status Sync();
  // Cuts what an earlier attempt wrote beyond the end, syncs, and gives the file its final name.
  absl::Status MoveTo(const std::string& path);

 private:
  OutputFile(std::string path, common::Descriptor file, int64_t kept);

  std::string path_;
  common::Descriptor file_;
  int64_t written_;  // without the buffer
  std::string buffer_;
};

// Removes the file if there is one.
void RemoveFile(const std::string& path);

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_OUTPUT_FILE_H_
