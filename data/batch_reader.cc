#include "data/batch_reader.h"

#include <cstring>
#include <utility>

#include "common/check.h"
#include "common/status_macros.h"

namespace strata::data {

BatchReader::BatchReader(Split split)
    : split_(std::move(split)), window_(static_cast<size_t>(split_.sequence) + 1) {}

absl::Status BatchReader::ReadWindow(SampleRef sample, int32_t* tokens, int32_t* targets) {
  const SplitSource& source = split_.sources[static_cast<size_t>(sample.source)];
  STRATA_CHECK(sample.window >= 0 && sample.window < source.windows);
  const int64_t n = split_.sequence;
  const int64_t begin = (source.first_window + sample.window) * n;
  RETURN_IF_ERROR(source.tokens->Read(begin, n + 1, window_.data()));
  const size_t bytes = static_cast<size_t>(n) * sizeof(int32_t);
  std::memcpy(tokens, window_.data(), bytes);
  std::memcpy(targets, window_.data() + 1, bytes);
  return source.tokens->MaskTargets(begin + 1, n, targets);
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
