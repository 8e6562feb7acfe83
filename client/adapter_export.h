// What strata export does with a checkpoint of adapters: a PEFT directory, or the merged model.
#ifndef STRATA_CLIENT_ADAPTER_EXPORT_H_
#define STRATA_CLIENT_ADAPTER_EXPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/dtype.h"
#include "checkpoint/huggingface/export.h"
#include "checkpoint/huggingface/stored_tensors.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/peft/adapter_weights.h"
#include "checkpoint/tensor_source.h"
#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

// Base and adapter as one source; owns both.
struct MergedModel {
  std::unique_ptr<checkpoint::HuggingFaceWeights> base;
  std::unique_ptr<checkpoint::TensorSource> adapter;
  std::vector<checkpoint::LogicalTensorShape> tensors;  // of the model
  std::unique_ptr<checkpoint::TensorSource> values;
};

// `adapter` are the values of the checkpoint's `tensors`. InvalidArgument: the directory that the
// job's model came from cannot be read any more.
absl::StatusOr<MergedModel> MergeAdapter(const v1::JobSpec& job, const model::ModelSpec& model,
                                         const std::vector<checkpoint::LogicalTensorShape>& tensors,
                                         std::unique_ptr<checkpoint::TensorSource> adapter);

// Writes the adapter as a PEFT directory. Errors of WriteAdapter.
absl::StatusOr<checkpoint::ExportedDirectory> ExportAdapter(
    const v1::JobSpec& job, const model::ModelSpec& model,
    const std::vector<checkpoint::LogicalTensorShape>& tensors, checkpoint::TensorSource& adapter,
    checkpoint::DType type, const std::string& folder);

}  // namespace strata::client

#endif  // STRATA_CLIENT_ADAPTER_EXPORT_H_
