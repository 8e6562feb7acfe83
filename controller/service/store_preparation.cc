#include "controller/service/store_preparation.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/restored_store.h"

namespace strata::controller {
namespace {

void Tell(const std::string& text) {
  std::fprintf(stderr, "strata-controller: %s\n", text.c_str());
}

// A store that was ever used holds the controller's term at least. What jobs left says that it was.
absl::Status CheckNotLost(const std::vector<Write>& records, const std::string& directory) {
  std::error_code error;
  const std::string jobs = directory + "/jobs";
  const std::filesystem::directory_iterator left(jobs, error);
  if (!records.empty() || error || left == std::filesystem::directory_iterator()) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat(
      directory, "/controller.db is empty, though there are folders of jobs in ", jobs,
      " — put back a backup of it (and start with --restored), or move both away to begin with an "
      "empty cluster"));
}

absl::Status Discard(const std::string& name, std::vector<Write>& records,
                     std::vector<Write>& writes) {
  const auto found = std::find_if(records.begin(), records.end(), [&](const Write& record) {
    return absl::StrCat(record.table, "/", record.key) == name;
  });
  if (found == records.end()) {
    return absl::NotFoundError(absl::StrCat("--discard-record ", name,
                                            ": there is no such record (TABLE/KEY, as in "
                                            "jobs/jobs/NAME); nothing was changed"));
  }
  Tell(absl::StrCat("DISCARDED for good, as told: record ", name, " (", found->value.size(),
                    " bytes)"));
  writes.push_back({found->table, found->key, "", /*erase=*/true});
  records.erase(found);
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareStore(Store& store, const std::string& directory,
                          const StorePreparation& preparation, const common::Entropy& entropy) {
  ASSIGN_OR_RETURN(std::vector<Write> records, store.Load());
  RETURN_IF_ERROR(CheckNotLost(records, directory));
  std::vector<Write> writes;
  for (const std::string& name : preparation.discard) {
    RETURN_IF_ERROR(Discard(name, records, writes));
  }
  if (preparation.restored) {
    if (records.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "--restored: ", directory, "/controller.db is empty — put the backup there first"));
    }
    ASSIGN_OR_RETURN(std::vector<Write> more, AfterRestore(records, entropy));
    writes.insert(writes.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
    Tell("the store is a backup: it begins a new incarnation; leave --restored out from now on");
  }
  return store.Commit(writes);
}

}  // namespace strata::controller
