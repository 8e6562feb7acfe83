// Programs of a device that keeps everything: where a step's end stands still for the host.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/composer.h"
#include "program/readers/verify.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::Contains;
using ::testing::Not;
using ::testing::StartsWith;

ProgramSet Build(UpdatePolicy policy) {
  const Plan plan{.virtual_shards = 0,
                  .global_batch = 2,
                  .evaluate_batch = 1,
                  .update = policy,
                  .gradient_clip = 1,
                  .tier = Tier::kDevice,
                  .scratch = ToyScratch};
  auto built = Compose(ToyGraph({.blocks = 4}), plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? std::move((*built)[0].set) : ProgramSet{};
}

int IndexOf(const Program& program, const std::string& label) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}

// What an instruction of the second of two steps comes after, its own stream's included: labels,
// behind "^" those of the first step.
std::set<std::string> Before(const Program& program, const std::string& label) {
  const int count = static_cast<int>(program.instructions.size());
  std::vector<int> todo{count + IndexOf(program, label)};
  std::set<int> seen;
  const auto visit = [&](int node) {
    if (node >= 0 && seen.insert(node).second) todo.push_back(node);
  };
  while (!todo.empty()) {
    const int node = todo.back();
    todo.pop_back();
    const Instruction& instruction = program.instructions[node % count];
    for (const Dependency& dependency : instruction.dependencies) {
      visit((node / count - dependency.steps_back) * count + dependency.instruction);
    }
    int before = node - 1;
    while (before >= 0 && program.instructions[before % count].stream != instruction.stream) {
      --before;
    }
    visit(before);
  }
  std::set<std::string> labels;
  for (const int node : seen) {
    labels.insert((node < count ? "^" : "") + program.instructions[node % count].label);
  }
  return labels;
}

TEST(OnDeviceTest, UpdatesOnADevice_WaitForNothingThatTheHostDoesBehindTheNorm) {
  for (const UpdatePolicy policy : {UpdatePolicy::kDeferred, UpdatePolicy::kSpeculative}) {
    const ProgramSet set = Build(policy);
    const Program& program = *set.find("train");
    const absl::Status status = Verify({&set}, "train", {.sizes = set.groups});
    ASSERT_TRUE(status.ok()) << status;
    const int finish = IndexOf(program, "finish");
    for (size_t i = finish; i < program.instructions.size(); ++i) {
      const Instruction& instruction = program.instructions[i];
      if (instruction.stream == Stream::kHost) {
        EXPECT_EQ(instruction.label, "report");
        continue;
      }
      EXPECT_EQ(instruction.stream, Stream::kCompute) << instruction.label;
      for (const Dependency& dependency : instruction.dependencies) {
        EXPECT_TRUE(dependency.steps_back > 0 || dependency.instruction < finish);
      }
    }
    // A checkpoint may hold the state; the gate asks without waiting for the step's gradients.
    EXPECT_THAT(Before(program, "results to the host"), Contains("snapshot gate"));
    EXPECT_THAT(Before(program, "snapshot gate"), Not(Contains(StartsWith("backward"))));
  }
}

TEST(OnDeviceTest, OnADevice_TheHostGetsAStepsResultsAndTheNextStepsBatch_UnderUpdates) {
  const ProgramSet set = Build(UpdatePolicy::kDeferred);
  const Program& program = *set.find("train");
  EXPECT_THAT(Before(program, "report"), Not(Contains(StartsWith("update"))));
  for (const char* label : {"load scalars", "load batch", "tokens to the device"}) {
    EXPECT_THAT(Before(program, label), Not(Contains(StartsWith("^update")))) << label;
    EXPECT_THAT(Before(program, label), Contains("^finish")) << label;
  }
}

}  // namespace
}  // namespace strata::program
