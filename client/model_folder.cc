#include "client/model_folder.h"

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/model_tensors.h"
#include "checkpoint/huggingface/weights.h"
#include "common/status_macros.h"
#include "data/file_identity.h"
#include "model/model_spec_proto.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;

bool Holds(const std::string& folder, const char* name) {
  std::error_code error;
  return fs::exists(fs::path(folder) / name, error);
}

}  // namespace

absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& path) {
  ASSIGN_OR_RETURN(checkpoint::HuggingFaceConfig config, checkpoint::ReadConfig(path));
  ModelFolder folder;
  folder.model = std::move(config.model);
  folder.notices = std::move(config.notices);
  const absl::StatusOr<model::ModelSpec> possible = model::FromProto(folder.model);
  if (!possible.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, "/", checkpoint::kConfigName, ": ", possible.status().message()));
  }
  folder.has_tokenizer = Holds(path, "tokenizer.json") ||
                         (Holds(path, "vocab.json") && Holds(path, "merges.txt")) ||
                         (Holds(path, "encoder.json") && Holds(path, "vocab.bpe"));
  return folder;
}

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

absl::StatusOr<v1::JobSpec> JobOfModelFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const ModelFolder folder, OpenModelFolder(path));
  v1::JobSpec job;
  *job.mutable_model() = folder.model;
  job.mutable_model()->set_from(path);
  if (folder.has_tokenizer) job.mutable_data()->set_tokenizer(path);
  return job;
}

}  // namespace strata::client
