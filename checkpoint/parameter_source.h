// A checkpoint's parameters as a source of tensors.
#ifndef STRATA_CHECKPOINT_PARAMETER_SOURCE_H_
#define STRATA_CHECKPOINT_PARAMETER_SOURCE_H_

#include <string>

#include "absl/status/status.h"
#include "checkpoint/reader.h"
#include "checkpoint/tensor_source.h"

namespace strata::checkpoint {

class ParameterSource final : public TensorSource {
 public:
  // Borrows the checkpoint.
  explicit ParameterSource(Checkpoint* checkpoint) : checkpoint_(*checkpoint) {}

  // Errors of Checkpoint::ReadRegion.
  absl::Status ReadRegion(const std::string& name, const Region& region, float* out) override {
    return checkpoint_.ReadRegion(name, "param", region, out);
  }

 private:
  Checkpoint& checkpoint_;
};

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_PARAMETER_SOURCE_H_
