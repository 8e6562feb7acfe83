// Writes a Hugging Face directory: config.json, weights, and the files of a tokenizer.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_EXPORT_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_EXPORT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/dtype.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/tensor_source.h"

namespace strata::checkpoint {

// Beyond so many bytes weights are spread over several files with an index, as transformers did
// when it began to do so.
inline constexpr int64_t kLargestWeightsFile = 5'000'000'000;

struct ExportRequest {
  std::vector<StoredTensor> tensors;                 // what is written, in this order
  TensorSource* source = nullptr;                    // of their parts
  std::string config;                                // text of config.json
  DType type = DType::kF32;                          // of the written tensors: F32, BF16 or F16
  std::map<std::string, DType> types;                // of single ones, by name
  std::vector<std::string> copies;                   // files that are copied as they are, by path
  int64_t largest_file_bytes = kLargestWeightsFile;  // of data, unless one tensor is larger
  // Told from time to time, bytes of weights; null: nobody asks.
  std::function<void(int64_t written, int64_t of)> on_progress;
};

struct ExportedDirectory {
  int64_t bytes = 0;  // of weights
  int64_t tensors = 0;
  int64_t files = 0;  // with weights
};

// Writes it to a temporary folder beside `folder` and moves it there when it is complete and
// durable. Memory stays below 100 MB whatever the size. AlreadyExists: something other than an
// empty folder is there; InvalidArgument: a value beyond what its type holds; errors of source and
// storage. After an error nothing is left behind.
absl::StatusOr<ExportedDirectory> ExportDirectory(const ExportRequest& request,
                                                  const std::string& folder,
                                                  FileSystem* files = PosixFileSystem());

// The files of a tokenizer and of generation in a folder, as ExportRequest::copies takes them.
std::vector<std::string> TokenizerFilesIn(const std::string& folder,
                                          FileSystem* files = PosixFileSystem());

// Of a --dtype: f32, bf16, f16. Nothing: another word.
std::optional<DType> WeightsType(const std::string& word);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_EXPORT_H_
