// The tensors of a PEFT directory: adapter_model.safetensors, in and out.
#ifndef STRATA_CHECKPOINT_PEFT_ADAPTER_WEIGHTS_H_
#define STRATA_CHECKPOINT_PEFT_ADAPTER_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/dtype.h"
#include "checkpoint/file_system.h"
#include "checkpoint/peft/adapter_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_source.h"

namespace strata::checkpoint {

inline constexpr char kAdapterWeightsName[] = "adapter_model.safetensors";

// A tensor of an adapter as the model names it (model/adapter_names.h), with its whole shape: A
// [rank, in], B [out, rank], or the rows of B for one part of a packed tensor.
struct AdapterTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// Used by one thread at a time.
class AdapterWeights final : public TensorSource {
 public:
  // Which of the model's adapters somebody names.
  enum class Named {
    kAll,   // others in the file are a mistake
    kSome,  // as those of a pipeline's stage
  };
  // Checks the file against the model's tensors before data is read. InvalidArgument, every problem
  // on a line of its own with the file's path: no valid safetensors file, tensors that are missing
  // or that the model's adapters do not have, other shapes, types other than F32, BF16 and F16; a
  // pickled file instead. `files` outlives it.
  static absl::StatusOr<std::unique_ptr<AdapterWeights>> Open(
      const std::string& folder, absl::Span<const AdapterTensor> tensors, Named named,
      FileSystem* files = PosixFileSystem());

  // Of the tensors given to Open, widened.
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override;

 private:
  struct Place {
    const SafetensorsEntry* entry = nullptr;
    int64_t first_row = 0;
    std::vector<int64_t> shape;
  };
  AdapterWeights() = default;
  std::vector<std::string> Match(absl::Span<const AdapterTensor> tensors, Named named);

  std::unique_ptr<SafetensorsReader> reader_;
  std::map<std::string, Place> places_;
  std::vector<char> bytes_;
  std::vector<float> row_;
};

// Whole names of the modules with an adapter in the directory, in the file's order.
absl::StatusOr<std::vector<std::string>> AdaptedModules(const std::string& folder,
                                                        FileSystem* files = PosixFileSystem());

struct AdapterToWrite {
  AdapterConfig config;                // modules follow from the tensors
  std::vector<AdapterTensor> tensors;  // parts of a packed one in the order of their rows
  TensorSource* source = nullptr;
  DType type = DType::kF32;  // F32, BF16 or F16
};

// Writes a PEFT directory to a temporary folder beside `folder`, and moves it there when it is
// complete and durable. AlreadyExists: something other than an empty folder is there. After an
// error nothing is left behind.
absl::Status WriteAdapter(const AdapterToWrite& adapter, const std::string& folder,
                          FileSystem* files = PosixFileSystem());

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_PEFT_ADAPTER_WEIGHTS_H_
