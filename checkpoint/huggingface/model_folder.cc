#include "checkpoint/huggingface/model_folder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/config.h"
#include "common/status_macros.h"
#include "model/model_spec_proto.h"

namespace strata::checkpoint {

absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& path) {
  ASSIGN_OR_RETURN(HuggingFaceConfig config, ReadConfig(path));
  ModelFolder folder;
  folder.model = std::move(config.model);
  folder.notices = std::move(config.notices);
  const absl::StatusOr<model::ModelSpec> possible = model::FromProto(folder.model);
  if (!possible.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, "/", kConfigName, ": ", possible.status().message()));
  }
  const auto holds = [&](const char* name) {
    return PosixFileSystem()->Exists(absl::StrCat(path, "/", name));
  };
  folder.has_tokenizer = holds("tokenizer.json") || (holds("vocab.json") && holds("merges.txt")) ||
                         (holds("encoder.json") && holds("vocab.bpe"));
  return folder;
}

absl::StatusOr<v1::JobSpec> JobOfModelFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const ModelFolder folder, OpenModelFolder(path));
  v1::JobSpec job;
  *job.mutable_model() = folder.model;
  job.mutable_model()->set_from(path);
  if (folder.has_tokenizer) job.mutable_data()->set_tokenizer(path);
  return job;
}

}  // namespace strata::checkpoint
