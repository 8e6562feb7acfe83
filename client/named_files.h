// What a job file names and its reading depends on, each read once.
#ifndef STRATA_CLIENT_NAMED_FILES_H_
#define STRATA_CLIENT_NAMED_FILES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/huggingface/model_folder.h"
#include "client/job_loading.h"
#include "data/tokenizer/tokenizer.h"
#include "spec/job_file.h"

namespace strata::client {

// The tokenizer that a job file names, loaded once.
class TokenizerOfJob {
 public:
  explicit TokenizerOfJob(std::string folder) : folder_(std::move(folder)) {}

  // `path` as the file writes it.
  void Load(const std::string& path) {
    if (!loaded_.has_value()) loaded_ = data::Tokenizer::Load(Absolute(path, folder_));
  }
  std::optional<int64_t> VocabularyOf(const std::string& path) {
    Load(path);
    return vocabulary();
  }
  // Nothing: none was loaded, or not with success, for the reason in status().
  std::optional<int64_t> vocabulary() const {
    if (!loaded_.has_value() || !loaded_->ok()) return std::nullopt;
    return (**loaded_)->vocabulary();
  }
  absl::Status status() const { return loaded_.has_value() ? loaded_->status() : absl::OkStatus(); }

 private:
  const std::string folder_;
  std::optional<absl::StatusOr<std::shared_ptr<const data::Tokenizer>>> loaded_;
};

// The directory that a job's model is from, read once.
class ModelOfJob {
 public:
  explicit ModelOfJob(std::string folder) : folder_(std::move(folder)) {}

  // `from` as the file writes it.
  std::optional<spec::ModelDirectory> Read(const std::string& from) {
    if (!opened_.has_value()) opened_ = checkpoint::OpenModelFolder(Absolute(from, folder_));
    if (!opened_->ok()) return std::nullopt;
    return spec::ModelDirectory{(*opened_)->model, (*opened_)->has_tokenizer};
  }
  absl::Status status() const { return opened_.has_value() ? opened_->status() : absl::OkStatus(); }
  std::vector<std::string> notices() const {
    return opened_.has_value() && opened_->ok() ? (*opened_)->notices : std::vector<std::string>();
  }

 private:
  const std::string folder_;
  std::optional<absl::StatusOr<checkpoint::ModelFolder>> opened_;
};

// Of the file in a folder.
struct NamedFiles {
  explicit NamedFiles(const std::string& folder) : tokenizer(folder), model(folder) {}
  TokenizerOfJob tokenizer;
  ModelOfJob model;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_NAMED_FILES_H_
