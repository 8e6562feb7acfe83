// Goes through an array of numbers in a file, which may lie unaligned, a piece at a time.
#ifndef STRATA_DATA_FILES_ARRAY_READER_H_
#define STRATA_DATA_FILES_ARRAY_READER_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "data/files/input_file.h"

namespace strata::data {

template <typename T>
class ArrayReader {
 public:
  // `count` numbers from byte `offset` on; they lie in the file, which outlives this.
  ArrayReader(const InputFile& file, int64_t offset, int64_t count)
      : file_(file), offset_(offset), left_(count) {}

  // The next one. To be called at most `count` times.
  absl::StatusOr<T> Next() {
    if (next_ == piece_.size()) {
      piece_.resize(static_cast<size_t>(std::min<int64_t>(left_, kPiece)));
      const auto bytes = static_cast<int64_t>(piece_.size() * sizeof(T));
      RETURN_IF_ERROR(file_.ReadAt(offset_, bytes, piece_.data()));
      offset_ += bytes, left_ -= static_cast<int64_t>(piece_.size());
      next_ = 0;
    }
    return piece_[next_++];
  }

 private:
  static constexpr int64_t kPiece = 8192;

  const InputFile& file_;
  int64_t offset_, left_;
  std::vector<T> piece_;
  size_t next_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_ARRAY_READER_H_
