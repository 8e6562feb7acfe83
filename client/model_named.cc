#include "client/model_named.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/config.h"
#include "client/text_file.h"
#include "common/status_macros.h"
#include "model/model_spec_proto.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using planner::FitModel;

absl::StatusOr<FitModel> ModelFromConfig(const std::string& path, v1::ModelSpec& message) {
  std::error_code error;
  const std::string file =
      fs::is_directory(path, error) ? path + "/" + checkpoint::kConfigName : path;
  ASSIGN_OR_RETURN(const std::string text,
                   ReadTextFile(file, checkpoint::kLargestConfigBytes, "config.json"));
  ASSIGN_OR_RETURN(const checkpoint::HuggingFaceConfig config,
                   checkpoint::ParseConfig(text, file, checkpoint::Experts::kRead));
  message = config.model;
  FitModel made{.name = path};
  if (config.experts > 1) made.kind = FitModel::Kind::kMoe;
  made.experts = config.experts;
  made.experts_per_token = config.experts_per_token;
  auto spec = model::FromProto(message);
  if (!spec.ok()) {
    return absl::Status(spec.status().code(),
                        absl::StrCat(file, ": ", absl::string_view(spec.status().message())));
  }
  made.spec = *std::move(spec);
  return made;
}

}  // namespace

absl::StatusOr<FitModel> ModelNamed(const std::string& name, v1::ModelSpec& message) {
  absl::StatusOr<FitModel> preset = planner::PresetModel(name);
  if (preset.ok()) {
    message = model::ToProto(preset->spec);
    return preset;
  }
  std::error_code error;
  if (fs::exists(name, error)) return ModelFromConfig(name, message);
  return absl::InvalidArgumentError(absl::StrCat("--model: ", name, ": ", preset.status().message(),
                                                 "; nor is it a directory or a config.json\n"));
}

}  // namespace strata::client
