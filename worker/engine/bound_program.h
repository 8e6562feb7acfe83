// A program ready to run: what each action does, where, and after what.
//
// Of a plan with a million actions each costs a few dozen bytes: what an op does is bound once per
// distinct set of addresses, however many actions do it, and what expansion made is dropped.
#ifndef STRATA_WORKER_ENGINE_BOUND_PROGRAM_H_
#define STRATA_WORKER_ENGINE_BOUND_PROGRAM_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "collectives/communicator.h"
#include "program/passes/expand.h"
#include "worker/engine/accelerator.h"
#include "worker/engine/address_map.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/issue_observer.h"
#include "worker/engine/lanes.h"
#include "worker/engine/op_binding.h"
#include "worker/engine/ssd_tier.h"

namespace strata::worker {

// "After that action has ended", in this step or the one before.
struct BoundDependency {
  uint32_t action : 31;
  uint32_t steps_back : 1;
};

// An entry of BoundProgram's `ops`, `copies` or `operations`.
struct BoundWork {
  enum Kind : uint32_t { kOp, kCopy, kOperation };
  uint32_t kind : 2;
  uint32_t index : 30;
};

struct BoundCopy {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  int64_t bytes = 0;
};

struct BoundAction {
  int64_t moved_bytes = 0;  // between tiers, or places of one
  int32_t instruction = -1;
  uint32_t first_dependency = 0;  // in BoundProgram::dependencies
  int32_t event = -1;             // recorded behind it; -1: no other stream waits for it
  int32_t end_time = -1;          // which of BoundProgram::end_times; -1 like event
  uint8_t dependencies = 0;       // how many, all on other streams
  uint8_t stream = 0;
  uint8_t purpose = 0;
  int8_t predicate = 0;  // 0: always; s + 1: where scalar s is not 0; -(s + 1): where it is
};

struct BoundProgram {
  std::vector<BoundAction> actions;  // in list order
  std::vector<BoundDependency> dependencies;
  std::vector<BoundWork> works;  // of action a in a step with `applied` updates before it: entry
                                 // a × variants + applied % variants
  std::vector<BoundOp> ops;
  std::vector<BoundCopy> copies;
  std::vector<collectives::Operation> operations;
  std::array<std::vector<int32_t>, program::kStreamCount> streams;  // actions of each, in order
  int64_t variants = 1;
  int events = 0;
  int end_times = 0;
  const double* scalars = nullptr;  // the block, where the host reads it
  // What compute does behind the host's report concerns nobody before the next step: a step is over
  // with the report, and the device goes on while the host makes the next one ready.
  bool goes_on = false;

  absl::Span<const BoundDependency> DependenciesOf(const BoundAction& action) const {
    return absl::MakeConstSpan(dependencies).subspan(action.first_dependency, action.dependencies);
  }
  bool TakesPlace(const BoundAction& action) const {
    const int at = action.predicate;  // NOLINT(bugprone-signed-char-misuse): a number
    return at == 0 || (at > 0 ? scalars[at - 1] != 0 : scalars[-at - 1] == 0);
  }
  // Gives those that others wait for events and end times, once all dependencies are there.
  void AssignEvents();
  // An action's place on its stream, within the step.
  int64_t Place(int action) const;
  // Bytes of all tables, what ops hold beside them apart.
  int64_t bytes() const;
};

// What binding needs; borrowed, and what is bound keeps using it.
struct BindingContext {
  const program::ProgramSet* set = nullptr;
  const AddressMap* addresses = nullptr;
  const GroupTable* groups = nullptr;
  std::array<OpEnvironment, kLaneCount> environments;
  HostOps* host = nullptr;  // for signals, on any stream
  SsdTier* ssd = nullptr;   // required where slots are on SSD; told what is moved
  // Null: lanes complete all streams. Else it completes those that have a queue here.
  Accelerator* accelerator = nullptr;
  std::array<device::QueueStream*, program::kStreamCount> queues = {};
  IssueObserver* observer = nullptr;  // may be null
};

// Binds an expanded program, which is not needed afterwards. Errors name the action: "instruction
// 12 (forward block 3), op 4 (matmul): …"; their codes are the binders', and InvalidArgument for
// dependencies that do not exist or would wait forever and for host ops whose operands the host
// cannot reach; Unimplemented for streams that nothing serves.
absl::StatusOr<BoundProgram> Bind(const program::Program& program,
                                  const program::ExpandedProgram& expanded,
                                  const BindingContext& context);

// InvalidArgument: a set that was not laid out, or has no scalar block.
absl::Status CheckLaidOut(const program::ProgramSet& set);
// The smallest table that tokens index; 0: none.
int64_t SmallestVocabulary(const program::ProgramSet& set);

// "instruction 12 (forward block 3), op 4 (matmul)", as ExpandedProgram::Describe says it.
std::string Describe(const program::ProgramSet& set, const program::Program& program,
                     const BoundProgram& bound, int action);
// "instruction 12 (forward block 3)".
std::string DescribeInstruction(const program::Program& program, const BoundProgram& bound,
                                int action);
// What it communicates; null: nothing.
const program::Communication* CommunicationOf(const program::ProgramSet& set,
                                              const program::Program& program,
                                              const BoundProgram& bound, int action);

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BOUND_PROGRAM_H_
