// model.safetensors.index.json: which file of a directory holds which tensor.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_WEIGHTS_INDEX_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_WEIGHTS_INDEX_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace strata::checkpoint {

inline constexpr char kIndexName[] = "model.safetensors.index.json";
inline constexpr size_t kLargestIndexBytes = size_t{64} << 20;
inline constexpr size_t kMostWeightFiles = 4096;

struct WeightsIndex {
  std::map<std::string, std::string> file_of;  // by tensor
  int64_t total_bytes = 0;                     // of all tensors; 0: not said
};

// InvalidArgument, without a path: no index, a tensor named twice, a file that is not one of the
// directory itself, or more files than any model has.
absl::StatusOr<WeightsIndex> ParseWeightsIndex(const std::string& text);
// What ParseWeightsIndex reads back. InvalidArgument: a name that is not UTF-8.
absl::StatusOr<std::string> FormatWeightsIndex(const WeightsIndex& index);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_WEIGHTS_INDEX_H_
