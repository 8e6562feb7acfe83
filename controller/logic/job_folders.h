// Whose folders are whose: two jobs that are not over never share one, nor does one lie in the
// other's, as each deletes old checkpoints where it writes new ones.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_FOLDERS_H_
#define STRATA_CONTROLLER_LOGIC_JOB_FOLDERS_H_

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "proto/strata/v1/records.pb.h"

namespace strata::controller {

// Lexically: no file system is asked, so links are not followed. "/a/../b//c/." becomes "/b/c/";
// `path` is absolute or relative to `base`, which is absolute.
std::string NormalFolder(const std::string& path, const std::string& base);

// `directory` and `checkpoint.directory` of the jobs added.
class JobFolders {
 public:
  struct Overlap {
    std::string field;   // of the job asked about: "directory" or "checkpoint.directory"
    std::string folder;  // the other's
    std::string job;     // the other's name
  };

  void Add(const v1::JobRecord& job);
  void Remove(const v1::JobRecord& job);
  // A folder of another job that equals, contains or lies in one of this job's; logarithmic in the
  // number of jobs.
  std::optional<Overlap> Find(const v1::JobRecord& job) const;

 private:
  std::set<std::pair<std::string, std::string>> folders_;  // (normal folder, job)
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_FOLDERS_H_
