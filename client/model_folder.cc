#include "client/model_folder.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/model_tensors.h"
#include "checkpoint/huggingface/weights.h"
#include "common/status_macros.h"
#include "data/file_identity.h"
#include "model/model_spec_proto.h"

namespace strata::client {

absl::Status AddWeights(const std::string& path, v1::ModelSpec* model) {
  model->set_from(path);
  ASSIGN_OR_RETURN(const std::vector<std::string> files, checkpoint::WeightFiles(path));
  if (files.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const model::ModelSpec spec, model::FromProto(*model));
  ASSIGN_OR_RETURN(const std::vector<checkpoint::LogicalTensorShape> tensors,
                   checkpoint::TensorsOfModel(spec));
  ASSIGN_OR_RETURN(
      const std::unique_ptr<checkpoint::HuggingFaceWeights> weights,
      checkpoint::HuggingFaceWeights::Open(path, spec, tensors, checkpoint::Named::kAll));
  model->set_weights_type(weights->type());
  for (const std::string& name : files) {
    const std::string file = absl::StrCat(path, "/", name);
    ASSIGN_OR_RETURN(const data::FileIdentity identity, data::IdentifyFile(file));
    v1::WeightsFile& entry = *model->add_weights();
    entry.set_path(file);
    entry.set_bytes(identity.bytes);
    entry.set_digest(identity.digest);
  }
  return absl::OkStatus();
}

}  // namespace strata::client
