// Random programs: the layout's result is always accepted, and the verifier refuses exactly what an
// oracle that looks at every pair of accesses and every byte finds wrong.
#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "program/passes/layout.h"
#include "program/readers/calls.h"
#include "program/readers/dump.h"
#include "program/readers/verify.h"
#include "program/readers/verify_rank.h"
#include "program/testing/brute_force.h"
#include "program/testing/random_program.h"

namespace strata::program {
namespace {

constexpr int kSeeds = 500;

Mesh MeshOf(const ProgramSet& set) { return {.sizes = set.groups}; }

// The verifier's cases: the same outcome in every step.
std::string FaultInSteadySteps(const ProgramSet& set) {
  for (const int index : {0, 1, 3}) {
    if (index >= set.groups.data) continue;
    for (const auto& [applied, clipped] : {std::pair{true, true}, {true, false}, {false, false}}) {
      const std::string fault =
          FindFault(set, set.programs[0], index, std::vector<bool>(3, applied), clipped);
      if (!fault.empty()) return fault;
    }
  }
  return "";
}

ProgramSet LaidOut(uint64_t seed) {
  ProgramSet set = RandomProgram(seed);
  const absl::Status status = LayOut(set);
  EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status;
  return set;
}

TEST(PropertyTest, WhateverIsLaidOutIsVerified) {
  int templates_with_streams = 0, two_copies = 0, dependencies = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    const absl::Status status = Verify({&set}, "train", MeshOf(set));
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status << "\n"
                             << Dump(set, set.programs[0], true);
    for (const Template& tmpl : set.templates) {
      templates_with_streams += std::any_of(tmpl.ops.begin(), tmpl.ops.end(), [](const Op& op) {
        return op.stream != Stream::kCaller;
      });
    }
    for (const Placement& place : set.placements) two_copies += place.copies == 2;
    for (const Instruction& i : set.programs[0].instructions) dependencies += i.dependencies.size();
  }
  EXPECT_GT(templates_with_streams, kSeeds);
  EXPECT_GT(two_copies, kSeeds / 10);
  EXPECT_GT(dependencies, 5 * kSeeds);
}

TEST(PropertyTest, WhateverIsLaidOutHoldsInEveryRowOfOutcomes) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    for (int row = 0; row < 8; ++row) {
      const std::vector<bool> applied = {(row & 1) != 0, (row & 2) != 0, (row & 4) != 0};
      const int index = row % set.groups.data;
      ASSERT_EQ(FindFault(set, set.programs[0], index, applied, true), "")
          << "seed " << seed << " row " << row << "\n"
          << Dump(set, set.programs[0], true);
    }
  }
}

// Otherwise large programs, which are laid out like small ones, would be looked at op by op.
TEST(PropertyTest, CallsAsUnitsAreEnoughForWhatIsLaidOut) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    for (const int index : {0, 1}) {
      const ShardIndices indices = [&](Group) { return index; };
      const auto units = CallsAsUnits(set, set.programs[0], indices);
      ASSERT_TRUE(units.has_value()) << "seed " << seed << "\n" << Dump(set, set.programs[0], true);
      const absl::Status status = VerifyActions(set, set.programs[0], *units, indices);
      ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status;
    }
  }
}

TEST(PropertyTest, LayoutIsTheSameEveryTime) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const ProgramSet one = LaidOut(seed), other = LaidOut(seed);
    ASSERT_EQ(Dump(one, one.programs[0], true), Dump(other, other.programs[0], true));
  }
}

// What the verifier says must be what the oracle says.
void Compare(const ProgramSet& set, uint64_t seed, const std::string& change, int& refused) {
  const absl::Status status = Verify({&set}, "train", MeshOf(set));
  const std::string fault = FaultInSteadySteps(set);
  ASSERT_EQ(status.ok(), fault.empty())
      << "seed " << seed << ", " << change << ": " << status << "; oracle: " << fault << "\n"
      << Dump(set, set.programs[0], true);
  refused += !status.ok();
}

TEST(PropertyTest, RemovedDependencyIsRefusedWhereTheOracleFindsARace) {
  int removed = 0, refused = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    Dice dice(~seed);
    for (size_t i = 0; i < set.programs[0].instructions.size(); ++i) {
      const int count = static_cast<int>(set.programs[0].instructions[i].dependencies.size());
      if (count == 0 || !dice.OneIn(4)) continue;
      ProgramSet changed = set;
      auto& dependencies = changed.programs[0].instructions[i].dependencies;
      dependencies.erase(dependencies.begin() + dice(count));
      ++removed;
      ASSERT_NO_FATAL_FAILURE(
          Compare(changed, seed, absl::StrCat("dependency of ", i, " removed"), refused));
    }
  }
  EXPECT_GT(refused, removed / 2) << removed;
}

TEST(PropertyTest, RemovedDependencyInsideATemplateIsRefusedWhereTheOracleFindsARace) {
  int removed = 0, refused = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    Dice dice(~seed);
    for (size_t t = 0; t < set.templates.size(); ++t) {
      for (size_t o = 0; o < set.templates[t].ops.size(); ++o) {
        const int count = static_cast<int>(set.templates[t].ops[o].dependencies.size());
        if (count == 0 || !dice.OneIn(4)) continue;
        ProgramSet changed = set;
        auto& dependencies = changed.templates[t].ops[o].dependencies;
        dependencies.erase(dependencies.begin() + dice(count));
        ++removed;
        ASSERT_NO_FATAL_FAILURE(Compare(
            changed, seed, absl::StrCat("dependency of op ", o, " of ", t, " removed"), refused));
      }
    }
  }
  EXPECT_GT(refused, removed / 4) << removed;
}

TEST(PropertyTest, SlotMovedOntoAnotherIsRefusedWhereTheOracleFindsAFault) {
  int moved = 0, refused = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    const Program& program = set.programs[0];
    Dice dice(~seed);
    const int slots = static_cast<int>(program.slots.size());
    for (int tries = 0; tries < 3; ++tries) {
      const int from = dice(slots), onto = dice(slots);
      if (from == onto || program.slots[from].tier != program.slots[onto].tier ||
          program.slots[from].bytes > program.slots[onto].bytes ||
          program.placements[onto].offset % program.slots[from].alignment != 0) {
        continue;
      }
      ProgramSet changed = set;
      changed.programs[0].placements[from].offset = program.placements[onto].offset;
      ++moved;
      ASSERT_NO_FATAL_FAILURE(
          Compare(changed, seed, absl::StrCat("slot ", from, " moved onto ", onto), refused));
    }
  }
  EXPECT_GT(refused, moved / 4) << moved;
}

TEST(PropertyTest, LocalMovedOntoAnotherIsRefusedWhereTheOracleFindsAFault) {
  int moved = 0, refused = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const ProgramSet set = LaidOut(seed);
    for (size_t t = 0; t < set.templates.size(); ++t) {
      const Template& tmpl = set.templates[t];
      if (tmpl.locals.size() != 2) continue;
      const int from = tmpl.locals[0].bytes <= tmpl.locals[1].bytes ? 0 : 1;
      if (tmpl.local_offsets[0] == tmpl.local_offsets[1]) continue;
      ProgramSet changed = set;
      changed.templates[t].local_offsets[from] = tmpl.local_offsets[1 - from];
      if (changed.templates[t].local_offsets[from] + tmpl.locals[from].bytes > tmpl.frame_bytes)
        continue;  // one that no op uses has no place
      ++moved;
      ASSERT_NO_FATAL_FAILURE(Compare(changed, seed, "local moved", refused));
    }
  }
  EXPECT_GT(refused, moved / 4) << moved;
}

}  // namespace
}  // namespace strata::program
