// Trainings whose bytes are in unified memory: they equal the CPU's, pages move as planned and
// never by a fault, and what is left out of the plan is found.
#include "program/ir/unified.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/training_testing.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::Instruction;
using program::Mechanism;
using program::ProgramSet;
using program::Tier;
using standin::Finding;
using standin::FindingKind;
using testing::AllOf;
using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

Training SmallUnifiedTraining() {
  Training training = SmallTraining();
  training.plan.places = {.parameters = {.unified = 1}, .optimizer = {.unified = 1}};
  training.plan.streaming = {.resident = 1};
  training.overflow_steps = {1};
  training.steps = 2;
  return training;
}

bool IsRoom(const program::Slot& slot) {
  return slot.tier == Tier::kDevice && program::IsUnified(slot);
}

// Whether an instruction prefetches to the device.
bool Brings(const ProgramSet& set, const program::Program& program, const Instruction& of) {
  return of.mechanism == Mechanism::kTransfer && IsRoom(set.slot(program, of.operands[1].slot));
}

// Pages that a run of a program brings.
int64_t PlannedPages(const ProgramSet& set, int program) {
  int64_t pages = 0;
  for (const Instruction& instruction : set.programs[program].instructions) {
    if (!Brings(set, set.programs[program], instruction)) continue;
    pages += program::UnifiedPages(instruction.operands[1].bytes);
  }
  return pages;
}

void TrainOnTheDevice(const Training& training, TrainingOutcome& outcome) {
  auto accelerator = CudaAccelerator::Create(0);
  ASSERT_TRUE(accelerator.ok()) << accelerator.status();
  Train(training, accelerator->get(), 0, nullptr, outcome);
}

class UnifiedTest : public standin::CudaTest {
 protected:
  // In each order of streams, or in one.
  void ExpectAsOnTheCpu(Training training, double tolerance, bool each_order = false) {
    TrainingOutcome expected;
    Train(training, nullptr, 0, nullptr, expected);
    if (HasFatalFailure()) return;
    const auto run = [&] { ExpectOnTheDevice(training, expected, tolerance); };
    if (each_order) return InEachOrder(run);
    run();
    EXPECT_THAT(standin::TakeFindings(), IsEmpty());
  }

  void ExpectOnTheDevice(Training training, const TrainingOutcome& expected, double tolerance) {
    int64_t planned = 0;
    training.look_at = [&](ProgramSet& set) {
      planned = training.steps * PlannedPages(set, 0) + PlannedPages(set, 1);
    };
    TrainingOutcome outcome;
    TrainOnTheDevice(training, outcome);
    if (HasFatalFailure()) return;
    ExpectNear(outcome, expected, tolerance);
    const standin::PageMoves pages = standin::GetCounters().pages;
    EXPECT_GT(planned, 0);
    EXPECT_EQ(pages.to_device, planned);
    EXPECT_EQ(pages.to_host, planned);
    EXPECT_EQ(pages.faults, 0);
  }

  // What is found where a composed program of one step is changed.
  std::vector<Finding> FindWith(const std::function<void(ProgramSet&)>& change) {
    standin::Reset({.stream_order = standin::StreamOrder::kProgram});
    Training training = SmallUnifiedTraining();
    training.overflow_steps = {};
    training.steps = 1;
    training.plan.evaluate_batch = 0;
    training.look_at = change;
    TrainingOutcome outcome;
    TrainOnTheDevice(training, outcome);
    return standin::TakeFindings();
  }
};

TEST_F(UnifiedTest, ParametersAndState) {
  ExpectAsOnTheCpu(SmallUnifiedTraining(), 1e-4, /*each_order=*/true);
}

// Masters in f32: the update writes weights that it does not read.
TEST_F(UnifiedTest, StateOfWeightsInBf16) {
  Training training = SmallUnifiedTraining();
  training.spec.hidden = 32;
  training.spec.head_size = 8;
  training.spec.ffn = 48;
  training.spec.vocab = 32;
  training.emission.type = program::DType::kBF16;
  ExpectAsOnTheCpu(training, 0.02);
}

// State alone, in ranges, beside gradients on the host; some of it stays on the device.
TEST_F(UnifiedTest, APartOfTheState) {
  Training training = SmallUnifiedTraining();
  training.plan.places = {.gradients = {.host = 1}, .optimizer = {.unified = 0.6}};
  training.plan.range_bytes = 4 * 4 * program::kRangeElements;
  ExpectAsOnTheCpu(training, 1e-4);
}

// A prefetch that goes the other way brings nothing.
TEST_F(UnifiedTest, APrefetchThatIsLeftOutIsFoundAndNamed) {
  for (const bool of_update : {false, true}) {
    std::string label;
    const auto findings = FindWith([&](ProgramSet& set) {
      std::vector<Instruction>& all = set.programs[0].instructions;
      const auto left_out = std::find_if(all.begin(), all.end(), [&](const Instruction& it) {
        return Brings(set, set.programs[0], it) &&
               (it.purpose == program::Purpose::kUpdate) == of_update;
      });
      ASSERT_NE(left_out, all.end());
      label = left_out->label;
      std::swap(left_out->operands[0], left_out->operands[1]);
    });
    EXPECT_THAT(findings,
                Contains(AllOf(
                    Field(&Finding::kind, FindingKind::kPageFault),
                    Field(&Finding::text,
                          AllOf(HasSubstr("of managed #"), HasSubstr("is on the host, touched by"),
                                HasSubstr(of_update ? "AdamW" : "EmbeddingForward"))))))
        << label;
  }
}

TEST_F(UnifiedTest, AnEventThatIsLeftOutIsFound) {
  int left_out = 0;
  const auto findings = FindWith([&](ProgramSet& set) {
    program::Program& train = set.programs[0];
    for (Instruction& call : train.instructions) {
      if (call.purpose != program::Purpose::kUpdate || call.mechanism != Mechanism::kCall) continue;
      left_out += static_cast<int>(std::erase_if(call.dependencies, [&](const auto& dependency) {
        return Brings(set, train, train.instructions[dependency.instruction]);
      }));
    }
  });
  EXPECT_GT(left_out, 0);
  EXPECT_THAT(findings, Contains(AllOf(Field(&Finding::kind, FindingKind::kRace),
                                       Field(&Finding::text, HasSubstr("residency of managed")))));
}

TEST_F(UnifiedTest, WithoutUnifiedMemoryAnEngineRefusesWithTheReason) {
  standin::Reset({.managed_memory = false});
  auto accelerator = *CudaAccelerator::Create(0);
  const auto open = [](Accelerator* device) {
    Workshop shop(1, Tier::kDevice);
    shop.assembler.AddPersistent({.name = "state",
                                  .tier = Tier::kHost,
                                  .klass = program::SlotClass::kOptimizer,
                                  .bytes = 64,
                                  .alignment = program::kUnifiedPage});
    shop.assembler.BeginProgram("train");
    shop.accelerator = device;
    return shop.Open().status();
  };
  const absl::Status of_device = open(accelerator.get()), of_cpu = open(nullptr);
  EXPECT_EQ(of_device.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(of_device.message(), HasSubstr("concurrentManagedAccess is 0"));
  EXPECT_EQ(of_cpu.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(of_cpu.message(), HasSubstr("unified memory is a GPU's"));
}

// Rooms are of one home: what an engine would bind to two addresses is refused.
TEST_F(UnifiedTest, ARoomOfTwoHomesIsRefused) {
  auto accelerator = *CudaAccelerator::Create(0);
  Workshop shop(1, Tier::kDevice);
  const auto add = [&](const char* name) {
    return shop.assembler.AddPersistent({.name = name,
                                         .tier = Tier::kHost,
                                         .klass = program::SlotClass::kOptimizer,
                                         .bytes = 64,
                                         .alignment = program::kUnifiedPage});
  };
  const int one = add("one"), other = add("other");
  shop.assembler.BeginProgram("train");
  const int room = shop.assembler.AddTransient({.name = "room",
                                                .tier = Tier::kDevice,
                                                .klass = program::SlotClass::kStaging,
                                                .bytes = 64,
                                                .alignment = program::kUnifiedPage});
  shop.Transfer(one, room, program::Stream::kFetch);
  shop.Transfer(room, other, program::Stream::kEvict);
  shop.accelerator = accelerator.get();
  const absl::Status status = shop.Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("room is not the room of whole pages of one home"));
}

}  // namespace
}  // namespace strata::worker
