// A machine of ranks that walks their programs as the engine would: streams in order, dependencies,
// collectives that start when all members have arrived, sends and receives that meet. With costs it
// is the timeline; without, it finds deadlocks and disagreements.
#ifndef STRATA_PROGRAM_READERS_MACHINE_H_
#define STRATA_PROGRAM_READERS_MACHINE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "program/ir/mesh.h"
#include "program/passes/expand.h"

namespace strata::program {

struct Span {
  double begin = 0, end = 0;
};

// Times of every action of one rank over the steps walked: spans[step · actions + action].
struct RankTimes {
  const ExpandedProgram* expanded = nullptr;
  const Program* program = nullptr;
  absl::Span<const Span> spans;
};

// Movable only: copies would point into the original.
struct MachineResult {
  MachineResult() = default;
  MachineResult(MachineResult&&) = default;
  MachineResult& operator=(MachineResult&&) = default;

  std::vector<ExpandedProgram> stages;  // these own what ranks point to
  std::vector<std::vector<Span>> spans;
  std::vector<RankTimes> ranks;  // all of the mesh
};

// Which action of which step: of a rank walked (with one rank per stage, the stage), and its place
// in the spans.
struct WalkedAction {
  const Program& program;
  const Action& action;
  int rank = 0;
  int node = 0;
};

// Seconds of one action on one rank, all members having arrived; of a message or collective, as the
// last of them has it.
using ActionCost = std::function<double(const WalkedAction&)>;

// Ranks of a stage run the same program and meet in the same places: what happens to one happens to
// all, at the same time, so that one of each stage is walked. A group or message inside a stage
// then is that rank's with itself.
enum class Walked : uint8_t { kOnePerStage, kEveryRank };

// Errors: FailedPrecondition where members of a group disagree, messages do not match, or all wait
// for each other; NotFound where a stage has no such program.
absl::StatusOr<MachineResult> WalkPrograms(const std::vector<const ProgramSet*>& stages,
                                           const std::string& program, const Mesh& mesh, int steps,
                                           const ActionCost& cost,
                                           Walked walked = Walked::kOnePerStage);

// The same over actions that are given, per stage; none: expanded here.
absl::StatusOr<MachineResult> WalkExpanded(const std::vector<const ProgramSet*>& stages,
                                           const std::string& program,
                                           std::vector<ExpandedProgram> expanded, const Mesh& mesh,
                                           int steps, const ActionCost& cost,
                                           Walked walked = Walked::kOnePerStage);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_MACHINE_H_
