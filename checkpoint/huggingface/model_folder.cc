#include "checkpoint/huggingface/model_folder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/config.h"
#include "common/status_macros.h"
#include "model/model_spec_proto.h"

namespace strata::checkpoint {
namespace {

bool Holds(const std::string& path, const char* name) {
  return PosixFileSystem()->Exists(absl::StrCat(path, "/", name));
}

bool HasTokenizer(const std::string& path) {
  return Holds(path, "tokenizer.json") ||
         (Holds(path, "vocab.json") && Holds(path, "merges.txt")) ||
         (Holds(path, "encoder.json") && Holds(path, "vocab.bpe"));
}

}  // namespace

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
  folder.has_tokenizer = HasTokenizer(path);
  return folder;
}

absl::Status CheckTokenizerForm(const std::string& path) {
  if (HasTokenizer(path)) return absl::OkStatus();
  for (const char* name : {"tokenizer.model", "spiece.model", "tokenizer_config.json"}) {
    if (!Holds(path, name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        path, "/", name, ": text is read by tokenizer.json, which is not beside it — write it: ",
        "AutoTokenizer.from_pretrained(\"", path, "\").save_pretrained(\"", path, "\")"));
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

}  // namespace strata::checkpoint
