#include "program/passes/dependencies.h"

#include <algorithm>
#include <array>
#include <vector>

#include "program/passes/hazards.h"
#include "program/passes/order.h"
#include "program/passes/taken_space.h"

namespace strata::program {
namespace {

bool HasTwoCopies(const ProgramSet& set) {
  return std::any_of(set.placements.begin(), set.placements.end(),
                     [](const Placement& placement) { return placement.copies > 1; });
}

// Adds the dependencies that make the list order hold, on real addresses, over consecutive steps;
// `advances`: of which each leaves versioned slots at their next version.
class DependencyAdder {
 public:
  DependencyAdder(const ProgramSet& set, Program& program, bool advances)
      : set_(set), program_(program), advances_(advances) {}

  void Run() {
    FindShared();
    int copies = 2;  // more of the same from then on, unless versions alternate between two places
    if (advances_ && HasTwoCopies(set_)) copies = 3;
    for (copy_ = 0; copy_ < copies; ++copy_) {
      for (size_t i = 0; i < program_.instructions.size(); ++i) Visit(static_cast<int>(i));
    }
  }

 private:
  int count() const { return static_cast<int>(program_.instructions.size()); }
  int NodeOf(int instruction, int copy) const { return copy * count() + instruction; }

  ByteRange RangeOf(const Operand& operand, int64_t applied) const {
    const int64_t begin =
        set_.placement(program_, operand.slot).at(applied, operand.version) + operand.offset;
    const int64_t moved = operand.shard_stride * (set_.groups.of(operand.shard_group) - 1);
    return {begin, begin + moved + operand.bytes};
  }
  int TierOf(const Operand& operand) const {
    return static_cast<int>(set_.slot(program_, operand.slot).tier);
  }

  // All that instructions beside the compute stream touch. Other bytes need no dependencies: a
  // stream's own order is implied.
  void FindShared() {
    for (const Instruction& instruction : program_.instructions) {
      if (instruction.stream == Stream::kCompute) continue;
      ForEachOperand(instruction, [&](const Operand& operand) {
        for (const int64_t applied : {0, 1})
          shared_[TierOf(operand)].Insert(RangeOf(operand, applied));
      });
    }
  }
  // Its operands, its frame and what its predicate reads.
  template <typename Function>
  void ForEachOperand(const Instruction& instruction, const Function& function) const {
    for (const Operand& operand : instruction.operands) function(operand);
    if (instruction.frame >= 0) {
      function(Operand{.slot = instruction.frame,
                       .bytes = set_.slot(program_, instruction.frame).bytes,
                       .access = Access::kWrite});
    }
    if (instruction.predicate.has_value()) {
      function(Operand{
          .slot = set_.scalars, .offset = ScalarOffset(instruction.predicate->scalar), .bytes = 8});
    }
  }

  void Use(const Operand& operand, int node, Stream stream, std::vector<int>& conflicts) {
    const ByteRange range = RangeOf(operand, advances_ ? copy_ : 0);
    const int tier = TierOf(operand);
    if (!shared_[tier].Meets(range)) return;
    map_.Use(tier, range.begin, range.end, operand.access, node, stream, conflicts);
  }

  void Visit(int index) {
    Instruction& instruction = program_.instructions[index];
    std::vector<int> before;
    for (const Dependency& dependency : instruction.dependencies) {
      if (copy_ >= dependency.steps_back)
        before.push_back(NodeOf(dependency.instruction, copy_ - dependency.steps_back));
    }
    const int node = order_.Add(instruction.stream, before);
    std::vector<int> conflicts;
    ForEachOperand(instruction, [&](const Operand& operand) {
      Use(operand, node, instruction.stream, conflicts);
    });
    std::sort(conflicts.rbegin(), conflicts.rend());
    for (const int earlier : conflicts) {
      if (order_.HappensBefore(earlier, node)) continue;
      // Only the step before can be named. Its run of that instruction comes after the older one.
      const int steps_back = std::min(copy_ - earlier / count(), 1);
      instruction.dependencies.push_back({earlier % count(), steps_back});
      order_.AddEdge(NodeOf(earlier % count(), copy_ - steps_back), node);
    }
  }

  const ProgramSet& set_;
  Program& program_;
  const bool advances_;
  std::array<ByteSet, kTierCount> shared_;
  HazardMap map_;
  Order order_;
  int copy_ = 0;
};

}  // namespace

void AddDependencies(const ProgramSet& set, Program& program) {
  const bool advances = AdvancesVersions(program);
  DependencyAdder(set, program, advances).Run();
  // Steps whose update is not applied leave versions where they are.
  if (advances && HasTwoCopies(set)) DependencyAdder(set, program, false).Run();
}

}  // namespace strata::program
