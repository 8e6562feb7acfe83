#include "client/checkpoint_job.h"

#include <google/protobuf/util/json_util.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "checkpoint/file_system.h"
#include "checkpoint/huggingface/config.h"
#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/reader.h"

namespace strata::client {
namespace {

absl::StatusOr<v1::JobSpec> JobOfFolder(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", checkpoint::kManifestName);
  const absl::StatusOr<std::string> text =
      checkpoint::PosixFileSystem()->ReadWhole(path, checkpoint::kLargestManifestBytes);
  if (!text.ok()) return absl::InvalidArgumentError(text.status().message());
  const absl::StatusOr<checkpoint::Manifest> manifest = checkpoint::Manifest::FromJson(*text);
  if (!manifest.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", absl::string_view(manifest.status().message()), "\n"));
  }
  v1::JobSpec job;
  if (google::protobuf::util::JsonStringToMessage(manifest->info.job_spec, &job).ok()) return job;
  return absl::InvalidArgumentError(absl::StrCat(path, ": holds no job\n"));
}

}  // namespace

absl::StatusOr<v1::JobSpec> JobOfCheckpoint(const std::string& path) {
  if (checkpoint::IsModelFolder(path)) return checkpoint::JobOfModelFolder(path);
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::path(path) / checkpoint::kManifestName, error)) {
    return JobOfFolder(path);
  }
  const auto folders = checkpoint::ListCheckpoints(path);
  if (!folders.ok()) return absl::InvalidArgumentError(folders.status().message());
  absl::Status newest = absl::InvalidArgumentError(absl::StrCat(path, ": no checkpoint in it\n"));
  for (size_t i = folders->size(); i-- > 0;) {
    absl::StatusOr<v1::JobSpec> found = JobOfFolder((*folders)[i].path);
    if (found.ok()) return found;
    if (i + 1 == folders->size()) newest = found.status();
  }
  return newest;
}

}  // namespace strata::client
