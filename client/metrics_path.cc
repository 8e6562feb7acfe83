#include "client/metrics_path.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;

// Whether a path leads, maybe through links, to /proc/…/fd/N: /dev/stdout, /dev/fd/N and the like.
bool IsDescriptor(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::error_code error;
  fs::path at = Absolute(path);
  for (int link = 0; link < kMostLinks; ++link) {
    const fs::path folder = fs::weakly_canonical(at.parent_path(), error);
    const std::string name = folder.string();
    if (absl::StartsWith(name, "/proc/") && folder.filename() == "fd") return true;
    const fs::path target = fs::read_symlink(at, error);
    if (error) return false;
    at = (folder / target).lexically_normal();
  }
  return false;
}

// Whether a file begins with a step record, also one whose end is missing, or is empty.
bool HoldsStepRecords(const std::string& path) {
  constexpr size_t kLongestRecord = 64 << 10;
  std::ifstream stream(path, std::ios::binary);
  std::string text(kLongestRecord, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (text.empty()) return true;
  const size_t end = text.find('\n');
  if (end == std::string::npos) {
    return text.front() == '{' && absl::StrContains(text, "\"step\":");
  }
  const auto first = nlohmann::json::parse(text.substr(0, end), nullptr, false);
  return first.is_object() && first.contains("step");
}

}  // namespace

absl::Status CheckMetricsPath(const std::string& path, const LoadedJob& job) {
  RETURN_IF_ERROR(CheckPathText("--metrics", Absolute(path)));
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics ", path, ": ", why, " — name a file of its own\n"));
  };
  if (path == "-") return refuse("standard output is not supported");
  if (IsDescriptor(path)) return refuse("an open stream of this program, not a file");
  const auto& spec = job.file.job;
  std::error_code error;
  if (fs::equivalent(path, job.path, error)) return refuse("is the job file");
  std::vector<std::string> data = {spec.data().validation().path()};
  for (const auto& file : spec.data().train()) data.push_back(file.path());
  for (const std::string& file : data) {
    if (fs::equivalent(path, file, error)) return refuse("is one of the job's data files");
  }
  RETURN_IF_ERROR(CheckWritableFile(path));
  if (fs::is_regular_file(path, error) && !HoldsStepRecords(path)) {
    return refuse("exists, and does not hold step records");
  }
  return absl::OkStatus();
}

}  // namespace strata::client
