#include "controller/logic/job_folders.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::controller {
namespace {

struct Field {
  std::string name;
  std::string folder;
};

std::vector<Field> FieldsOf(const v1::JobRecord& job) {
  const std::string own = NormalFolder(job.directory(), "/");
  const v1::CheckpointSpec& checkpoint = job.spec().checkpoint();
  // The narrower one first: where both overlap it is the one that hurts.
  return {{"checkpoint.directory",
           NormalFolder(checkpoint.has_directory() ? checkpoint.directory() : "checkpoints", own)},
          {"directory", own}};
}

}  // namespace

std::string NormalFolder(const std::string& path, const std::string& base) {
  const bool absolute = !path.empty() && path[0] == '/';
  const std::string whole = absolute ? path : absl::StrCat(base, "/", path);
  std::vector<std::string> parts;
  for (const auto part : absl::StrSplit(whole, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part != "..") {
      parts.emplace_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string normal = "/";
  for (const std::string& part : parts) absl::StrAppend(&normal, part, "/");
  return normal;
}

void JobFolders::Add(const v1::JobRecord& job) {
  for (const Field& field : FieldsOf(job)) folders_[{field.folder, job.name()}] = job.owner();
}

void JobFolders::Remove(const v1::JobRecord& job) {
  for (const Field& field : FieldsOf(job)) folders_.erase({field.folder, job.name()});
}

bool JobFolders::Hinders(const Folders::value_type& at, const std::string& folder,
                         const v1::JobRecord& job) {
  const auto& [other, name] = at.first;
  return name != job.name() && (other == folder || at.second == job.owner());
}

JobFolders::Overlap JobFolders::OverlapOf(const Folders::value_type& at, const std::string& field,
                                          const v1::JobRecord& job) {
  const auto& [folder, name] = at.first;
  return {field, folder, at.second == job.owner() ? name : ""};
}

std::optional<JobFolders::Overlap> JobFolders::Find(const v1::JobRecord& job) const {
  for (const Field& field : FieldsOf(job)) {
    const std::string& folder = field.folder;
    // What it equals or contains begins with it; what contains it is one of its beginnings.
    for (auto at = folders_.lower_bound({folder, ""});
         at != folders_.end() && at->first.first.compare(0, folder.size(), folder) == 0; ++at) {
      if (Hinders(*at, folder, job)) return OverlapOf(*at, field.name, job);
    }
    for (size_t end = 0; end + 1 < folder.size(); end = folder.find('/', end + 1)) {
      const std::string parent = folder.substr(0, end + 1);
      for (auto at = folders_.lower_bound({parent, ""});
           at != folders_.end() && at->first.first == parent; ++at) {
        if (Hinders(*at, folder, job)) return OverlapOf(*at, field.name, job);
      }
    }
  }
  return std::nullopt;
}

}  // namespace strata::controller
