// The config.json of a Hugging Face directory and the model that it describes.
//
// Read as transformers reads it: what a file leaves out has the default of its family's
// configuration class (verified against transformers 5.24), both the older keys (rope_theta,
// rope_scaling, torch_dtype, rope_local_base_freq, sliding_window_pattern) and the newer ones
// (rope_parameters, dtype, layer_types) are understood, and what Strata cannot compute is refused
// by its key.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_CONFIG_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/file_system.h"
#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::checkpoint {

inline constexpr char kConfigName[] = "config.json";
inline constexpr size_t kLargestConfigBytes = size_t{1} << 20;

// Whether a folder is such a directory: it has a config.json, and is no checkpoint.
bool IsModelFolder(const std::string& folder, FileSystem* files = PosixFileSystem());

struct HuggingFaceConfig {
  // Sizes and conventions; `from`, `weights` and `weights_type` are left to whoever knows them.
  v1::ModelSpec model;
  std::string type;                  // f32, bf16 or f16, as the file says; empty: it does not
  std::vector<std::string> notices;  // what the user should know: dropout that is ignored, …
  // Of Mixtral's blocks; `model` has the sizes of one expert.
  int64_t experts = 1, experts_per_token = 1;
};

// Mixtures of experts are not computed, but their memory and time can be told.
enum class Experts { kRefused, kRead };

// InvalidArgument: every problem on a line of its own, "PATH: KEY: what is wrong — what to do".
// `path` is the file's name in messages.
absl::StatusOr<HuggingFaceConfig> ParseConfig(const std::string& text, const std::string& path,
                                              Experts experts = Experts::kRefused);
// The same of `folder`/config.json. InvalidArgument too: it cannot be read.
absl::StatusOr<HuggingFaceConfig> ReadConfig(const std::string& folder,
                                             FileSystem* files = PosixFileSystem(),
                                             Experts experts = Experts::kRefused);

struct ConfigToWrite {
  model::ModelSpec model;
  std::string type;  // f32, bf16 or f16
  // The file that the model came from, for what it says beside the model; empty: there is none.
  std::string original;
  // Of the tokenizer, where there is no original.
  std::optional<int64_t> begin_of_text, end_of_text;
};

// A config.json that transformers 4 and 5 read alike, and ParseConfig reads back to the same model.
std::string FormatConfig(const ConfigToWrite& config);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_CONFIG_H_
