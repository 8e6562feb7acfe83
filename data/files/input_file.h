// A file that a user named, open for reading at any position.
//
// Files are read with pread and never mapped: corpora are usually larger than memory, and mapped
// pages would count as the process's memory.
#ifndef STRATA_DATA_FILES_INPUT_FILE_H_
#define STRATA_DATA_FILES_INPUT_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/descriptor.h"

namespace strata::data {

// `status` with "PATH: " before its text.
absl::Status AtPath(absl::string_view path, const absl::Status& status);

// Any number of threads may read at once.
class InputFile {
 public:
  // Errors start with the path: NotFound (no such file), PermissionDenied, InvalidArgument (a
  // directory, empty, not a regular file, a link where none is followed).
  static absl::StatusOr<InputFile> Open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // when it was opened, in bytes; at least 1
  int descriptor() const { return file_.get(); }

  // All of [offset, offset + size). Allocates nothing. DataLoss: the file has become shorter or
  // cannot be read any more.
  absl::Status ReadAt(int64_t offset, int64_t size, void* out) const;

 private:
  InputFile(std::string path, common::Descriptor file, int64_t size)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::string path_;
  common::Descriptor file_;
  int64_t size_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_INPUT_FILE_H_
