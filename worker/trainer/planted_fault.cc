// strata-trainer with one mistake in its train program, made between compiling and verification:
// STRATA_PLANTED_FAULT says which. For tests that such a program never runs.
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "common/check.h"
#include "program/ir/program.h"
#include "worker/trainer/trainer_main.h"

namespace strata::worker {
namespace {

using program::Dependency;
using program::Instruction;
using program::Mechanism;
using program::Operand;
using program::Program;
using program::ProgramSet;

bool Reads(const Instruction& instruction, int slot) {
  return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                     [&](const Operand& o) { return o.slot == slot && o.reads(); });
}

bool Writes(const Instruction& instruction, int slot) {
  return std::any_of(instruction.operands.begin(), instruction.operands.end(),
                     [&](const Operand& o) { return o.slot == slot && o.writes(); });
}

struct Use {
  int gather = -1, call = -1;
};

// The first call that waits for a gather and reads what it brings.
Use FirstGatheredUse(const Program& train) {
  for (int call = 0; call < static_cast<int>(train.instructions.size()); ++call) {
    const Instruction& instruction = train.instructions[call];
    if (instruction.mechanism != Mechanism::kCall) continue;
    for (const Dependency& dependency : instruction.dependencies) {
      const Instruction& gather = train.instructions[dependency.instruction];
      if (gather.purpose != program::Purpose::kGather || dependency.steps_back != 0) continue;
      for (const Operand& brought : gather.operands) {
        if (brought.writes() && Reads(instruction, brought.slot)) {
          return {dependency.instruction, call};
        }
      }
    }
  }
  STRATA_CHECK(false);  // the job of the test shards its parameters
  return {};
}

void DropDependency(Program& train, const Use& use) {
  std::erase(train.instructions[use.call].dependencies, Dependency{use.gather, 0});
}

// Lists the instructions in the order `kept`, old indices; what is not in it is gone, and so is
// waiting for it or for what comes later now.
void Rearrange(Program& train, const std::vector<int>& kept) {
  std::vector<int> place(train.instructions.size(), -1);
  for (size_t i = 0; i < kept.size(); ++i) place[kept[i]] = static_cast<int>(i);
  std::vector<Instruction> instructions;
  for (const int old : kept) {
    Instruction& moved = instructions.emplace_back(std::move(train.instructions[old]));
    for (Dependency& each : moved.dependencies) each.instruction = place[each.instruction];
    std::erase_if(moved.dependencies, [&](const Dependency& each) {
      return each.instruction < 0 || (each.steps_back == 0 && each.instruction >= place[old]);
    });
  }
  train.instructions = std::move(instructions);
}

std::vector<int> AllOf(const Program& train) {
  std::vector<int> all(train.instructions.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

[[maybe_unused]] void NoDependency(ProgramSet&, Program& train) {
  DropDependency(train, FirstGatheredUse(train));
}

// The gather stands behind its use.
[[maybe_unused]] void LateFetch(ProgramSet&, Program& train) {
  const Use use = FirstGatheredUse(train);
  std::vector<int> order = AllOf(train);
  std::rotate(order.begin() + use.gather, order.begin() + use.gather + 1,
              order.begin() + use.call + 1);
  Rearrange(train, order);
}

// Who waited for the first reduction of gradients waits for what that waited for.
[[maybe_unused]] void NoReduction(ProgramSet&, Program& train) {
  const auto found = std::find_if(train.instructions.begin(), train.instructions.end(),
                                  [](const Instruction& each) {
                                    return each.mechanism == Mechanism::kCollective &&
                                           each.purpose == program::Purpose::kReduce;
                                  });
  STRATA_CHECK(found != train.instructions.end());
  const int reduction = static_cast<int>(found - train.instructions.begin());
  const std::vector<Dependency> inherited = found->dependencies;
  for (Instruction& each : train.instructions) {
    if (std::erase(each.dependencies, Dependency{reduction, 0}) == 0) continue;
    each.dependencies.insert(each.dependencies.end(), inherited.begin(), inherited.end());
  }
  std::vector<int> order = AllOf(train);
  order.erase(order.begin() + reduction);
  Rearrange(train, order);
}

// The first slot that is written while an earlier one has not had its last use lies on it.
[[maybe_unused]] void Overlap(ProgramSet& set, Program& train) {
  const int shared = static_cast<int>(set.slots.size());
  const int count = static_cast<int>(train.instructions.size());
  const auto life = [&](int slot) {
    std::pair<int, int> first_and_last{-1, -1};
    for (int i = 0; i < count; ++i) {
      if (first_and_last.first < 0 && Writes(train.instructions[i], slot)) first_and_last.first = i;
      if (Reads(train.instructions[i], slot)) first_and_last.second = i;
    }
    return first_and_last;
  };
  const int slots = static_cast<int>(train.slots.size());
  for (int a = 0; a < slots; ++a) {
    const auto [begin, end] = life(shared + a);
    for (int b = 0; b < slots; ++b) {
      const int write = life(shared + b).first;
      if (a == b || train.slots[a].tier != train.slots[b].tier || train.slots[a].bytes == 0 ||
          train.slots[b].bytes == 0 || train.slots[b].bytes > train.slots[a].bytes || begin < 0 ||
          write <= begin || write >= end) {
        continue;
      }
      train.placements[b] = train.placements[a];
      return;
    }
  }
  STRATA_CHECK(false);  // no program is without
}

void Plant(ProgramSet& set) {
  for (Program& program : set.programs) {
    if (program.name == "train") STRATA_PLANTED_FAULT(set, program);
  }
}

}  // namespace
}  // namespace strata::worker

int main(int argc, char** argv) {
  return strata::worker::TrainerMain(argc, argv, {.plant = &strata::worker::Plant});
}
