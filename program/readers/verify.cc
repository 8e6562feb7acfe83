#include "program/readers/verify.h"

#include <algorithm>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "program/passes/expand.h"
#include "program/readers/calls.h"
#include "program/readers/machine.h"
#include "program/readers/meeting_calls.h"
#include "program/readers/verify_in_flight.h"
#include "program/readers/verify_places.h"
#include "program/readers/verify_rank.h"

namespace strata::program {
namespace {

bool SameRange(const Operand& a, const Operand& b) {
  return a.slot == b.slot && a.offset == b.offset && a.bytes == b.bytes && a.access == b.access &&
         a.version == b.version && a.partial == b.partial;
}

bool SameRanges(const ExpandedProgram& a, const ExpandedProgram& b) {
  return std::equal(a.actions.begin(), a.actions.end(), b.actions.begin(), b.actions.end(),
                    [](const Action& x, const Action& y) {
                      return std::equal(x.operands.begin(), x.operands.end(), y.operands.begin(),
                                        y.operands.end(), SameRange);
                    });
}

ShardIndices Everywhere(int index) {
  return [index](Group) { return index; };
}

absl::Status OpByOp(const ProgramSet& set, const Program& program, const ShardIndices& indices) {
  return VerifyActions(set, program, Expand(set, program), indices);
}

absl::Status VerifyWith(const ProgramSet& set, const Program& program,
                        const ShardIndices& indices) {
  RETURN_IF_ERROR(VerifyPlaces(set, program));
  RETURN_IF_ERROR(VerifyInFlight(set, program));
  const std::optional<ExpandedProgram> units = CallsAsUnits(set, program, indices);
  if (units.has_value() && VerifyActions(set, program, *units, indices).ok())
    return absl::OkStatus();
  return OpByOp(set, program, indices);
}

// One index after the other; those that touch the same bytes as the one before are passed over.
absl::Status VerifyIndices(const ProgramSet& set, const Program& program,
                           const std::set<int>& shard_indices) {
  RETURN_IF_ERROR(VerifyPlaces(set, program));
  RETURN_IF_ERROR(VerifyInFlight(set, program));
  std::optional<ExpandedProgram> before;
  for (const int index : shard_indices) {
    const ShardIndices indices = Everywhere(index);
    std::optional<ExpandedProgram> units = CallsAsUnits(set, program, indices);
    const bool known = units.has_value() && before.has_value() && SameRanges(*units, *before);
    if (!known && (!units.has_value() || !VerifyActions(set, program, *units, indices).ok()))
      RETURN_IF_ERROR(OpByOp(set, program, indices));
    before = std::move(units);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyRank(const ProgramSet& set, const Program& program, int shard_index) {
  return VerifyWith(set, program, Everywhere(shard_index));
}

absl::Status VerifyStage(const ProgramSet& set, const Program& program, const Mesh& mesh,
                         int rank) {
  return VerifyWith(set, program,
                    [&](Group group) { return std::max(0, mesh.IndexIn(group, rank)); });
}

absl::Status VerifyGroups(const std::vector<const ProgramSet*>& stages, const std::string& program,
                          const Mesh& mesh) {
  const ActionCost nothing = [](const WalkedAction&) { return 0.0; };
  if (auto calls = CallsThatMeet(stages, program, mesh); calls.has_value()) {
    if (WalkExpanded(stages, program, *std::move(calls), mesh, 2, nothing).ok())
      return absl::OkStatus();
  }
  return WalkPrograms(stages, program, mesh, 2, nothing).status();
}

absl::Status Verify(const std::vector<const ProgramSet*>& stages, const std::string& program,
                    const Mesh& mesh) {
  for (const ProgramSet* stage : stages) {
    const Program* found = stage->find(program);
    if (found == nullptr)
      return absl::NotFoundError(absl::StrCat("a stage has no program ", program));
    const int largest = mesh.sizes.world();  // the index in smaller groups stops at their last
    RETURN_IF_ERROR(VerifyIndices(*stage, *found, {0, std::min(1, largest - 1), largest - 1}));
  }
  return VerifyGroups(stages, program, mesh);
}

}  // namespace strata::program
