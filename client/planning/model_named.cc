#include "client/planning/model_named.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/manifest.h"
#include "client/text_file.h"
#include "common/status_macros.h"
#include "model/model_spec_proto.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using checkpoint::Experts;
using checkpoint::HuggingFaceConfig;
using planner::FitModel;

absl::StatusOr<HuggingFaceConfig> ConfigAt(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(const std::string text,
                     ReadTextFile(path, checkpoint::kLargestConfigBytes, "config.json"));
    if (text.size() > checkpoint::kLargestConfigBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path,
                       ": too large to be a config.json — name that of the model, or its "
                       "directory\n"));
    }
    return checkpoint::ParseConfig(text, path, Experts::kRead);
  }
  if (fs::exists(path + "/" + checkpoint::kManifestName, error)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a checkpoint — name its job file: strata fit JOB.yaml\n"));
  }
  return checkpoint::ReadConfig(path, checkpoint::PosixFileSystem(), Experts::kRead);
}

absl::StatusOr<FitModel> ModelFromConfig(const std::string& path, v1::ModelSpec& message) {
  ASSIGN_OR_RETURN(const HuggingFaceConfig config, ConfigAt(path));
  message = config.model;
  FitModel made{.name = path};
  if (config.experts > 1) made.kind = FitModel::Kind::kMoe;
  made.experts = config.experts;
  made.experts_per_token = config.experts_per_token;
  auto spec = model::FromProto(message);
  if (!spec.ok()) {
    return absl::Status(spec.status().code(),
                        absl::StrCat(path, ": ", absl::string_view(spec.status().message())));
  }
  made.spec = *std::move(spec);
  return made;
}

}  // namespace

absl::StatusOr<FitModel> ModelNamed(const std::string& name, v1::ModelSpec& message) {
  std::error_code error;
  const bool is_there = fs::exists(name, error);
  // Files at hand are meant before a published model that has such a path for a name.
  if (is_there && absl::StrContains(name, '/')) return ModelFromConfig(name, message);
  absl::StatusOr<FitModel> preset = planner::PresetModel(name);
  if (preset.ok()) {
    message = model::ToProto(preset->spec);
    return preset;
  }
  if (is_there) return ModelFromConfig(name, message);
  return absl::InvalidArgumentError(absl::StrCat("--model: ", name, ": ", preset.status().message(),
                                                 "; nor is it a directory or a config.json\n"));
}

}  // namespace strata::client
