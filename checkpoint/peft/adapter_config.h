// adapter_config.json of a PEFT directory (written down in docs/adapters.md).
#ifndef STRATA_CHECKPOINT_PEFT_ADAPTER_CONFIG_H_
#define STRATA_CHECKPOINT_PEFT_ADAPTER_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/file_system.h"

namespace strata::checkpoint {

inline constexpr char kAdapterConfigName[] = "adapter_config.json";
inline constexpr size_t kLargestAdapterConfigBytes = size_t{1} << 20;

// W x becomes W x + alpha / rank · B A x.
struct AdapterConfig {
  int64_t rank = 0;
  double alpha = 0;
  std::string base;                  // name or path of the model beside which it was trained
  std::vector<std::string> modules;  // by their whole names; not read: the tensors say which
  bool transposed = false;           // the base keeps matrices [in, out] (fan_in_fan_out)

  double scale() const { return alpha / static_cast<double>(rank); }
};

// InvalidArgument, every problem on a line of its own, "PATH: KEY: what is wrong — what to do":
// what is no LoRA, or a variant that Strata does not compute. `path` is the file's name in
// messages.
absl::StatusOr<AdapterConfig> ParseAdapterConfig(const std::string& text, const std::string& path);
// The same of `folder`/adapter_config.json. InvalidArgument too: it cannot be read.
absl::StatusOr<AdapterConfig> ReadAdapterConfig(const std::string& folder,
                                                FileSystem* files = PosixFileSystem());

// The text that PEFT 0.21 writes for it.
std::string FormatAdapterConfig(const AdapterConfig& config);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_PEFT_ADAPTER_CONFIG_H_
