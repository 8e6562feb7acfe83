#include "data/batch_reader.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "common/check.h"
#include "common/status_macros.h"

namespace strata::data {

BatchReader::BatchReader(Split split)
    : split_(std::move(split)), window_(static_cast<size_t>(split_.sequence) + 1) {}

absl::Status BatchReader::ReadRows(const TokenSource& source, int64_t begin, int64_t rows,
                                   int32_t* tokens, int32_t* targets) {
  RETURN_IF_ERROR(source.Read(begin, rows + 1, window_.data()));
  const size_t bytes = static_cast<size_t>(rows) * sizeof(int32_t);
  std::memcpy(tokens, window_.data(), bytes);
  std::memcpy(targets, window_.data() + 1, bytes);
  return source.MaskTargets(begin + 1, rows, targets);
}

absl::Status BatchReader::ReadWindow(SampleRef sample, int32_t* tokens, int32_t* targets,
                                     int32_t* positions) {
  const SplitSource& source = split_.sources[static_cast<size_t>(sample.source)];
  STRATA_CHECK(sample.window >= 0 && sample.window < source.windows);
  const int64_t n = split_.sequence;
  if (source.packing == nullptr) {
    if (positions != nullptr) std::iota(positions, positions + n, 0);
    return ReadRows(*source.tokens, (source.first_window + sample.window) * n, n, tokens, targets);
  }
  const Packing::Pieces pieces = source.packing->Of(source.first_window + sample.window);
  int64_t row = 0;
  for (int64_t i = 0; i < pieces.size(); ++i) {
    const auto [begin, rows] = pieces[i];
    RETURN_IF_ERROR(ReadRows(*source.tokens, begin, rows, tokens + row, targets + row));
    if (positions != nullptr) std::iota(positions + row, positions + row + rows, 0);
    row += rows;
  }
  std::fill(tokens + row, tokens + n, 0);
  std::fill(targets + row, targets + n, -1);
  if (positions != nullptr) std::fill(positions + row, positions + n, 0);
  return absl::OkStatus();
}

absl::Status BatchReader::ReadBatch(const Sampler& sampler, int64_t first, int64_t count,
                                    int32_t* tokens, int32_t* targets) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = i * split_.sequence;
    RETURN_IF_ERROR(ReadWindow(sampler.At(first + i), tokens + row, targets + row));
  }
  return absl::OkStatus();
}

}  // namespace strata::data
