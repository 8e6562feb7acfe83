// The verifier: an independent check of laid-out programs, on addresses. It trusts neither builders
// nor the layout.
#ifndef STRATA_PROGRAM_READERS_VERIFY_H_
#define STRATA_PROGRAM_READERS_VERIFY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "program/ir/mesh.h"
#include "program/ir/program.h"

namespace strata::program {

// One rank's program over consecutive steps, for one index in the operands' shard groups. Refused,
// each with the instructions, slots and bytes concerned:
//  - races: two uses of the same bytes, one of them a write, that no stream order or dependency
//  orders;
//  - missing producers: bytes read that were never written in this step (or ever, for persistent
//  slots), that another
//    slot has overwritten, or whose version has been replaced;
//  - clashes inside an action: different slots or locals on the same bytes, one of them written;
//  - places: misaligned, outside the arena, or persistent slots that share bytes with anything;
//  - predicates on communication;
//  - more passes in flight than the schedule allows: activations kept for backwards;
//  - missing reductions: bytes read as complete that are still partial sums over a group, or the
//  reverse.
// Calls are taken as units first (see CallsAsUnits), which is enough for what the layout makes;
// only where that is not enough does op by op decide, and name the ops. `shard_index`: in every
// group.
absl::Status VerifyRank(const ProgramSet& set, const Program& program, int shard_index);

// VerifyRank of this very rank of the mesh: what a trainer asks about its own program.
absl::Status VerifyStage(const ProgramSet& set, const Program& program, const Mesh& mesh, int rank);

// All of a mesh's ranks together, each running `programs[stage]`: groups' collectives agree in
// order, op, type, bytes and root; sends and receives match in order and size; nobody waits for
// ever (sends and receives meet, neither is buffered). Messages name ranks, instructions and
// groups. Needs every stage's program; once in a job is enough.
absl::Status VerifyGroups(const std::vector<const ProgramSet*>& stages, const std::string& program,
                          const Mesh& mesh);

// VerifyRank for every stage and every (first, second, last) index, then VerifyGroups.
absl::Status Verify(const std::vector<const ProgramSet*>& stages, const std::string& program,
                    const Mesh& mesh);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_VERIFY_H_
