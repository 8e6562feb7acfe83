#include "client/checkpoint_source.h"

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/huggingface/config.h"
#include "client/job_loading.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;

bool HoldsCheckpoints(const fs::path& folder) {
  std::error_code error;
  for (auto at = fs::directory_iterator(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    if (absl::StartsWith(at->path().filename().string(), "step-")) return true;
  }
  return false;
}

absl::Status Refuse(const std::string& source, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", what, "\n"));
}

}  // namespace

absl::StatusOr<std::string> FindCheckpoint(const std::string& from, absl::string_view flag) {
  const std::string source = flag.empty() ? from : absl::StrCat(flag, " ", from);
  const fs::path path = Absolute(from);
  RETURN_IF_ERROR(CheckPathText(flag.empty() ? "the checkpoint" : flag, path.string()));
  std::error_code error;
  if (!fs::exists(path, error)) return Refuse(source, "no such file or directory");
  if (!fs::is_directory(path, error)) {
    return Refuse(source, "not a directory — name a checkpoint's folder");
  }
  const bool is_one = absl::StartsWith(path.filename().string(), "step-") ||
                      fs::exists(path / "manifest.json", error);
  if (is_one || HoldsCheckpoints(path)) return path.string();
  if (HoldsCheckpoints(path / "checkpoints")) return (path / "checkpoints").string();
  if (checkpoint::IsModelFolder(path.string())) return path.string();
  return Refuse(source,
                "no checkpoint in it, nor config.json — name a step-N folder, a directory of "
                "them, or a Hugging Face directory");
}

}  // namespace strata::client
