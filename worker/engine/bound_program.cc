#include "worker/engine/bound_program.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "ops/embedding.h"

namespace strata::worker {
namespace {

// The op of a call's action; null: the action is the instruction itself.
const program::Op* OpOf(const program::ProgramSet& set, const program::Program& program,
                        const BoundProgram& bound, int action, int* index) {
  const int instruction = bound.actions[action].instruction;
  const program::Instruction& call = program.instructions[instruction];
  if (call.mechanism != program::Mechanism::kCall) return nullptr;
  // A call's actions are its template's ops, one after the other.
  *index = 0;
  while (action > *index && bound.actions[action - *index - 1].instruction == instruction) {
    ++*index;
  }
  return &set.templates[call.template_index].ops[*index];
}

template <typename T>
int64_t BytesOf(const std::vector<T>& table) {
  return static_cast<int64_t>(table.capacity() * sizeof(T));
}

}  // namespace

int64_t BoundProgram::Place(int action) const {
  const std::vector<int32_t>& stream = streams[actions[action].stream];
  return std::lower_bound(stream.begin(), stream.end(), action) - stream.begin();
}

// An event is free again once its last waiter has been issued, for waits look at where it stood
// then. What the next step waits for has one of its own: another action's would stand elsewhere
// when the next step's wait is issued, behind that step's record of it.
void BoundProgram::AssignEvents() {
  constexpr int kNextStep = std::numeric_limits<int>::max();
  std::vector<int> last_waiter(actions.size(), -1);
  for (size_t a = 0; a < actions.size(); ++a) {
    for (const BoundDependency& dependency : DependenciesOf(actions[a])) {
      int& last = last_waiter[dependency.action];
      last = dependency.steps_back > 0 ? kNextStep : std::max(last, static_cast<int>(a));
    }
  }
  std::vector<int> free;
  std::vector<std::vector<int>> ends_at(actions.size());
  for (size_t a = 0; a < actions.size(); ++a) {
    for (const int event : ends_at[a]) free.push_back(event);
    if (last_waiter[a] < 0) continue;
    BoundAction& action = actions[a];
    action.end_time = end_times++;
    if (last_waiter[a] == kNextStep) {
      action.event = events++;
      continue;
    }
    if (free.empty()) free.push_back(events++);
    action.event = free.back();
    free.pop_back();
    ends_at[last_waiter[a]].push_back(action.event);
  }
}

int64_t BoundProgram::bytes() const {
  int64_t sum = BytesOf(actions) + BytesOf(dependencies) + BytesOf(works) + BytesOf(ops) +
                BytesOf(copies) + BytesOf(operations);
  for (const std::vector<int32_t>& stream : streams) sum += BytesOf(stream);
  return sum;
}

absl::Status CheckLaidOut(const program::ProgramSet& set) {
  for (const program::Program& program : set.programs) {
    if (program.placements.size() != program.slots.size()) {
      return absl::InvalidArgumentError("the program set has not been laid out");
    }
  }
  if (set.scalars < 0 || set.scalars >= static_cast<int>(set.slots.size()) ||
      set.slots[set.scalars].bytes < program::kScalarBytes) {
    return absl::InvalidArgumentError("the program set has no scalar block");
  }
  return absl::OkStatus();
}

int64_t SmallestVocabulary(const program::ProgramSet& set) {
  int64_t vocabulary = 0;
  for (const program::Template& tmpl : set.templates) {
    for (const program::Op& op : tmpl.ops) {
      if (op.kind != program::OpKind::kEmbeddingForward) continue;
      const auto lookup = ops::FromOp<ops::EmbeddingForward>(op);
      if (!lookup.ok()) continue;  // refused where it is bound
      const int64_t rows =
          lookup->whole > 0 ? lookup->whole : lookup->vocab * set.groups.of(lookup->group);
      vocabulary = vocabulary == 0 ? rows : std::min(vocabulary, rows);
    }
  }
  return vocabulary;
}

std::string DescribeInstruction(const program::Program& program, const BoundProgram& bound,
                                int action) {
  const int instruction = bound.actions[action].instruction;
  return absl::StrCat("instruction ", instruction, " (", program.instructions[instruction].label,
                      ")");
}

std::string Describe(const program::ProgramSet& set, const program::Program& program,
                     const BoundProgram& bound, int action) {
  const std::string text = DescribeInstruction(program, bound, action);
  int index = 0;
  const program::Op* op = OpOf(set, program, bound, action, &index);
  if (op == nullptr) return text;
  return absl::StrCat(text, ", op ", index, " (", Name(op->kind), ")");
}

const program::Communication* CommunicationOf(const program::ProgramSet& set,
                                              const program::Program& program,
                                              const BoundProgram& bound, int action) {
  int index = 0;
  const program::Op* op = OpOf(set, program, bound, action, &index);
  if (op != nullptr) {
    return op->kind == program::OpKind::kCollective ? &op->communication : nullptr;
  }
  const program::Instruction& own = program.instructions[bound.actions[action].instruction];
  const bool communicates = own.mechanism == program::Mechanism::kCollective ||
                            own.mechanism == program::Mechanism::kSend ||
                            own.mechanism == program::Mechanism::kReceive;
  return communicates ? &own.communication : nullptr;
}

}  // namespace strata::worker
