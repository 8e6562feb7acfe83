// Whose folders are whose: two jobs that are not over never share one, as each deletes old
// checkpoints where it writes new ones; nor does one lie in the other's if both are of one owner.
// What lies in or around one's folder may be another's: else a job in / would keep all others out.
#ifndef STRATA_CONTROLLER_LOGIC_JOB_FOLDERS_H_
#define STRATA_CONTROLLER_LOGIC_JOB_FOLDERS_H_

#include <map>
#include <optional>
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
    std::string job;     // the other's name; empty: it is another owner's
  };

  void Add(const v1::JobRecord& job);
  void Remove(const v1::JobRecord& job);
  // A folder of another job that equals one of this job's, or, of the same owner, contains or lies
  // in it; logarithmic in the number of jobs, but for others' folders that lie in it.
  std::optional<Overlap> Find(const v1::JobRecord& job) const;

 private:
  // By folder and job; the value: its owner.
  using Folders = std::map<std::pair<std::string, std::string>, std::string>;
  // Whether what is `at` keeps `job` from this folder of its own.
  static bool Hinders(const Folders::value_type& at, const std::string& folder,
                      const v1::JobRecord& job);
  static Overlap OverlapOf(const Folders::value_type& at, const std::string& field,
                           const v1::JobRecord& job);

  Folders folders_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_JOB_FOLDERS_H_
