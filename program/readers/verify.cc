#include "program/readers/verify.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/readers/machine.h"

namespace strata::program {

absl::Status VerifyRanks(const std::vector<const ProgramSet*>& stages, const std::string& program,
                         const Mesh& mesh) {
  return Walk(stages, program, mesh, 2, [](const Program&, const Action&) { return 0.0; }).status();
}

absl::Status Verify(const std::vector<const ProgramSet*>& stages, const std::string& program,
                    const Mesh& mesh) {
  for (const ProgramSet* stage : stages) {
    const Program* found = stage->find(program);
    if (found == nullptr)
      return absl::NotFoundError(absl::StrCat("a stage has no program ", program));
    const int largest = mesh.sizes.world();  // the index in smaller groups stops at their last
    for (const int index : std::set<int>{0, std::min(1, largest - 1), largest - 1}) {
      RETURN_IF_ERROR(VerifyRank(*stage, *found, index));
    }
  }
  return VerifyRanks(stages, program, mesh);
}

}  // namespace strata::program
