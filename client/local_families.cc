#include "client/local_families.h"

#include <fcntl.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/machine_profile.h"
#include "common/descriptor.h"
#include "common/small_file.h"
#include "common/status_macros.h"
#include "proto/strata/v1/cluster.pb.h"

namespace strata::client {
namespace {

constexpr char kHeader[] =
    "# proto-file: proto/strata/v1/cluster.proto, proto-message: ListPlanFamiliesResponse\n";

// Not told of its mistakes one by one: nobody writes this file by hand.
class Silent final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

auto FamilyIn(planner::LearnedFamilies& families, const std::string& workload,
              const std::string& layout) {
  return std::find_if(families.begin(), families.end(), [&](const v1::PlanFamily& family) {
    return family.workload() == workload && family.layout() == layout;
  });
}

// Whoever writes holds the lock of PATH.lock, which stays.
absl::StatusOr<common::Descriptor> Lock(const std::string& path) {
  const std::string name = absl::StrCat(path, ".lock");
  common::Descriptor lock(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock.is_open()) return common::FileError(name, "open", errno);
  while (flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return common::FileError(name, "lock", errno);
  }
  return lock;
}

}  // namespace

std::string FamiliesPath(const std::string& profile) {
  const std::string path = ProfilePath(profile);
  return absl::StrCat(absl::StripSuffix(path, ".textproto"), ".families.textproto");
}

absl::StatusOr<planner::LearnedFamilies> LoadFamilies(const std::string& profile) {
  const std::string path = FamiliesPath(profile);
  const absl::StatusOr<std::string> text = common::ReadFile(path);
  if (absl::IsNotFound(text.status())) return planner::LearnedFamilies();
  RETURN_IF_ERROR(text.status());
  v1::ListPlanFamiliesResponse kept;
  Silent errors;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  if (!parser.ParseFromString(*text, &kept)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": holds no families of plans — delete it; strata run begins it anew"));
  }
  return std::move(*kept.mutable_families());
}

absl::Status KeepComparison(const std::string& profile, const planner::FamilyKey& key,
                            const planner::ComparedSteps& steps, double wall) {
  const std::string path = FamiliesPath(profile);
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  ASSIGN_OR_RETURN(const common::Descriptor lock, Lock(path));
  v1::ListPlanFamiliesResponse kept;
  absl::StatusOr<planner::LearnedFamilies> before = LoadFamilies(profile);
  if (before.ok()) *kept.mutable_families() = *std::move(before);
  planner::LearnedFamilies& families = *kept.mutable_families();
  auto family = FamilyIn(families, key.workload, key.layout);
  if (family == families.end()) {
    if (static_cast<size_t>(families.size()) >= kMostLocalFamilies) {
      families.erase(std::min_element(families.begin(), families.end(), [](auto& a, auto& b) {
        return a.update_time().seconds() < b.update_time().seconds();
      }));
    }
    families.Add();
    family = families.end() - 1;
  }
  planner::Learn(key, steps, wall, *family);
  std::string text;
  google::protobuf::TextFormat::PrintToString(kept, &text);
  return common::ReplaceFile(path, kHeader + text, /*durable=*/false);
}

planner::LearnedFamilies Merged(planner::LearnedFamilies first,
                                const planner::LearnedFamilies& second) {
  for (const v1::PlanFamily& family : second) {
    if (FamilyIn(first, family.workload(), family.layout()) == first.end()) {
      *first.Add() = family;
    }
  }
  return first;
}

}  // namespace strata::client
