#include "worker/trainer/base_weights.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/huggingface/model_tensors.h"
#include "common/status_macros.h"
#include "data/file_identity.h"
#include "model/adapter_names.h"
#include "model/model_spec_proto.h"
#include "protocol/data_files.h"

namespace strata::worker {
namespace {

absl::Status CheckUnchanged(const v1::WeightsFile& file) {
  ASSIGN_OR_RETURN(const data::FileIdentity found, data::IdentifyFile(file.path()));
  v1::DataFile was, is;
  was.set_bytes(file.bytes());
  was.set_digest(file.digest());
  is.set_bytes(found.bytes);
  is.set_digest(found.digest);
  const std::string change = protocol::ChangeOf(was, is);
  if (change.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), ": is not what the job was handed over with: ", change, " — ",
                   protocol::kChangedDataAdvice));
}

absl::Status CheckTensors(const v1::ModelSpec& model) {
  ASSIGN_OR_RETURN(const model::ModelSpec spec, model::FromProto(model));
  ASSIGN_OR_RETURN(const std::vector<checkpoint::LogicalTensorShape> tensors,
                   checkpoint::TensorsOfModel(spec));
  return checkpoint::HuggingFaceWeights::Open(model.from(), spec, tensors, checkpoint::Named::kAll)
      .status();
}

}  // namespace

absl::Status CheckBaseWeights(const v1::ModelSpec& model) {
  for (const v1::WeightsFile& file : model.weights()) RETURN_IF_ERROR(CheckUnchanged(file));
  return CheckTensors(model);
}

absl::StatusOr<v1::JobSpec> JobOfWeights(const std::string& folder) {
  constexpr int64_t kLongest = 1024;
  ASSIGN_OR_RETURN(v1::JobSpec job, checkpoint::JobOfModelFolder(folder));
  job.mutable_train()->set_sequence(std::min(kLongest, job.model().context()));
  RETURN_IF_ERROR(CheckTensors(job.model()));
  return job;
}

absl::StatusOr<std::unique_ptr<checkpoint::HuggingFaceWeights>> OpenBaseWeights(
    const v1::ModelSpec& model, const std::vector<program::ParameterSet>& sets,
    checkpoint::FileSystem* files) {
  ASSIGN_OR_RETURN(const model::ModelSpec spec, model::FromProto(model));
  std::vector<checkpoint::LogicalTensorShape> tensors = checkpoint::LogicalTensorsOf(sets);
  std::erase_if(tensors, [](const checkpoint::LogicalTensorShape& tensor) {
    return model::IsAdapter(tensor.name) || program::IsRowScales(tensor.name);
  });
  return checkpoint::HuggingFaceWeights::Open(model.from(), spec, tensors, checkpoint::Named::kSome,
                                              files);
}

}  // namespace strata::worker
