// Where values of logical tensors come from: a checkpoint's parameters, a Hugging Face directory,
// or what is made of several.
#ifndef STRATA_CHECKPOINT_TENSOR_SOURCE_H_
#define STRATA_CHECKPOINT_TENSOR_SOURCE_H_

#include <string>

#include "absl/status/status.h"
#include "checkpoint/box.h"

namespace strata::checkpoint {

// Used by one thread at a time.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  // Elements of a region of a logical tensor, row-major, as floats. NotFound: no such tensor;
  // DataLoss, Unavailable: of the storage, naming the file.
  virtual absl::Status ReadRegion(const std::string& name, const Region& region, float* out) = 0;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_TENSOR_SOURCE_H_
