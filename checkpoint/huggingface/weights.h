// The weights of a Hugging Face directory: model.safetensors, or the files that
// model.safetensors.index.json names.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_WEIGHTS_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_WEIGHTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checkpoint/box.h"
#include "checkpoint/dtype.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_source.h"
#include "model/model_spec.h"

namespace strata::checkpoint {

// Names of the files with weights in `folder`, ascending. Empty: there are none, the folder
// describes a model only. InvalidArgument naming the file: an index that cannot be used, or weights
// in a form that is not read (pickled ones).
absl::StatusOr<std::vector<std::string>> WeightFiles(const std::string& folder,
                                                     FileSystem* files = PosixFileSystem());

// Which of the model's tensors somebody names.
enum class Named {
  kAll,   // others in the files are a mistake
  kSome,  // as those of a pipeline's stage
};

// Used by one thread at a time.
class HuggingFaceWeights final : public TensorSource {
 public:
  // Opens all files and checks headers, names, types and shapes against the model's tensors before
  // a byte of data is read; nothing is allocated by what the files claim. InvalidArgument, every
  // problem on a line of its own with the file's or the folder's path: a file that is no valid
  // safetensors file, an index that does not match the files, tensors that are missing, or that the
  // model does not have (buffers that transformers ignores too are ignored), other shapes, types
  // other than F32, BF16 and F16. `files` outlives it.
  static absl::StatusOr<std::unique_ptr<HuggingFaceWeights>> Open(
      const std::string& folder, const model::ModelSpec& spec,
      absl::Span<const LogicalTensorShape> tensors, Named named,
      FileSystem* files = PosixFileSystem());

  // Of logical tensors, widened. Reads only what the region needs.
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override;

  // The type that most of the weights have: f32, bf16 or f16.
  const std::string& type() const { return type_; }
  // Of a tensor by its name in transformers' files.
  const std::map<std::string, DType>& types() const { return types_; }

 private:
  struct Entry {
    const SafetensorsReader* file = nullptr;
    const SafetensorsEntry* entry = nullptr;
  };
  explicit HuggingFaceWeights(std::string folder) : folder_(std::move(folder)) {}
  absl::Status OpenFiles(FileSystem* files);
  // Each finds what is wrong; Match takes what it uses out of stored_.
  std::vector<std::string> Match(const std::vector<StoredTensor>& model, bool tied);
  std::vector<std::string> FindOthers(const model::ModelSpec& spec) const;
  void ChooseType();

  // Elements of a stored tensor that follow one another.
  absl::Status ReadRun(const Entry& found, int64_t first, int64_t count, float* out);
  absl::Status ReadBox(const Entry& found, const StoredPart& part, const Box& box, float* out);
  absl::Status ReadTransposed(const Entry& found, const StoredPart& part, const Box& box,
                              float* out);

  const std::string folder_;
  std::vector<std::unique_ptr<SafetensorsReader>> readers_;
  std::map<std::string, Entry> stored_;  // by name in the files
  bool text_of_more_ = false;            // the names are those of a model with other parts
  struct Place {
    Entry found;
    StoredPart part;
  };
  std::map<std::string, Place> places_;  // by logical name
  std::map<std::string, DType> types_;
  std::string type_;
  std::vector<char> chunk_;
  std::vector<float> wide_;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_WEIGHTS_H_
