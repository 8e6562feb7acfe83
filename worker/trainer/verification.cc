#include "worker/trainer/verification.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "program/readers/verify.h"

namespace strata::worker {
namespace {

absl::Status Refuse(const absl::Status& status) {
  return absl::InternalError(
      absl::StrCat("refused before the first step: ", std::string(status.message())));
}

}  // namespace

absl::Status VerifyPrograms(const program::ProgramSet& own,
                            const std::vector<const program::ProgramSet*>& stages,
                            const program::Mesh& mesh, int rank) {
  for (const program::Program& program : own.programs) {
    absl::Status status = program::VerifyStage(own, program, mesh, rank);
    if (status.ok() && !stages.empty()) {
      status = program::VerifyGroups(stages, program.name, mesh);
    }
    if (!status.ok()) return Refuse(status);
  }
  return absl::OkStatus();
}

std::string ProgramNames(const program::ProgramSet& set) {
  return absl::StrJoin(set.programs, " and ",
                       [](std::string* out, const program::Program& program) {
                         absl::StrAppend(out, program.name);
                       });
}

}  // namespace strata::worker
