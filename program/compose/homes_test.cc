// Programs whose parameters, gradients and optimizer state are at home in host memory or on SSD.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program/compose/composer.h"
#include "program/readers/dump.h"
#include "program/readers/memory.h"
#include "program/readers/timeline.h"
#include "program/readers/verify.h"
#include "program/testing/golden.h"
#include "program/testing/toy_graph.h"

namespace strata::program {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kBlocks = 4;
constexpr int64_t kParameters = 2 * toy::kTableSet + kBlocks * toy::kBlockSet + toy::kNormSet;
constexpr int64_t kSets = kBlocks + 3;  // table, blocks, norm, head

Places All(const Place& place) { return {place, place, place, {}}; }

Plan OnHost(int64_t micro_batches = 1) {
  return {.virtual_shards = 0,
          .global_batch = micro_batches,
          .evaluate_batch = 1,
          .places = All({.host = 1}),
          .gradient_clip = 1,
          .tier = Tier::kDevice,
          .scratch = ToyScratch};
}

Plan OnSsd(UpdatePolicy policy, int64_t micro_batches = 2) {
  Plan plan = OnHost(micro_batches);
  plan.places = All({.ssd = 1});
  plan.update = policy;
  return plan;
}

Plan Shared(Plan plan, int data) {
  plan.groups.data = plan.groups.shard = data;
  plan.shard = ShardLevel::kParameters;
  plan.global_batch *= data;
  return plan;
}

StagePrograms Build(const Plan& plan, bool tied = false) {
  auto built = Compose(ToyGraph({.blocks = kBlocks, .tied = tied}), plan, ToyUpdate);
  EXPECT_TRUE(built.ok()) << built.status();
  return built.ok() ? std::move((*built)[0]) : StagePrograms{};
}

absl::Status VerifyAll(const ProgramSet& set) {
  for (const Program& program : set.programs) {
    if (absl::Status status = Verify({&set}, program.name, {.sizes = set.groups}); !status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

TierMemory MemoryOf(ProgramSet set, const std::string& program, Tier tier) {
  std::erase_if(set.programs, [&](const Program& other) { return other.name != program; });
  return ReadMemory(set).tiers[static_cast<int>(tier)];
}

int IndexOf(const Program& program, const std::string& label) {
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    if (program.instructions[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no instruction " << label;
  return 0;
}

TEST(HomesTest, EveryProgram_IsVerified) {
  for (const int data : {1, 2, 4}) {
    for (const int64_t micro_batches : {1, 4, 8}) {
      for (const bool tree : {false, true}) {
        for (const MicroOrder order : {MicroOrder::kDepthFirst, MicroOrder::kLayerFirst}) {
          for (Plan plan : {OnHost(micro_batches), OnSsd(UpdatePolicy::kSpooled, micro_batches),
                            OnSsd(UpdatePolicy::kSpeculative, micro_batches)}) {
            for (const int64_t ahead : {-1, 0, 1 << 20}) {
              if (data > 1) plan = Shared(plan, data);
              if (data > 1) plan.global_batch = data * micro_batches;
              plan.virtual_shards = tree ? plan.global_batch : 0;
              plan.micro_order = order;
              plan.prefetch_bytes = ahead;
              plan.slabs = ahead == 0 ? kLeastSlabs : 8;
              const absl::Status status = VerifyAll(Build(plan, /*tied=*/ahead == 0).set);
              ASSERT_TRUE(status.ok())
                  << status << ": data " << data << " micro-batches " << micro_batches << " tree "
                  << tree << " on SSD " << plan.places.uses_ssd() << " update "
                  << static_cast<int>(plan.update) << " ahead " << ahead;
            }
          }
        }
      }
    }
  }
}

TEST(HomesTest, DeviceThatTheHostDoesNotShare_GetsAndGivesByTransfers) {
  for (const int level : {0, 1, 2, 3}) {
    Plan plan = OnHost(2);
    plan.places = {};
    plan.shard = static_cast<ShardLevel>(level);
    plan.groups.data = 2;
    plan.groups.shard = level > 0 ? 2 : 1;
    const ProgramSet set = Build(plan).set;
    const absl::Status status = VerifyAll(set);
    ASSERT_TRUE(status.ok()) << status;
    for (const Program& program : set.programs) {
      for (const Instruction& instruction : program.instructions) {
        if (instruction.mechanism != Mechanism::kCall) continue;
        const bool host =
            instruction.stream == Stream::kHost || instruction.stream == Stream::kUpdate;
        const Tier tier = host ? Tier::kHost : Tier::kDevice;
        for (const Operand& operand : instruction.operands) {
          EXPECT_EQ(set.slot(program, operand.slot).tier, tier)
              << instruction.label << ": " << set.slot(program, operand.slot).name;
        }
      }
    }
  }
}

TEST(HomesTest, CallsAndCollectives_WorkInMemoryOfTheirOwnTier) {
  for (const Plan& plan :
       {OnHost(2), OnSsd(UpdatePolicy::kSpooled), OnSsd(UpdatePolicy::kSpeculative),
        Shared(OnHost(2), 2), Shared(OnSsd(UpdatePolicy::kSpooled), 2),
        Shared(OnSsd(UpdatePolicy::kSpeculative), 2)}) {
    const ProgramSet set = Build(plan).set;
    for (const Program& program : set.programs) {
      for (const Instruction& instruction : program.instructions) {
        if (instruction.mechanism == Mechanism::kTransfer ||
            instruction.mechanism == Mechanism::kSignal) {
          continue;
        }
        const bool host =
            instruction.stream == Stream::kHost || instruction.stream == Stream::kUpdate;
        const Tier tier = host ? Tier::kHost : Tier::kDevice;
        for (const Operand& operand : instruction.operands) {
          EXPECT_EQ(set.slot(program, operand.slot).tier, tier)
              << instruction.label << ": " << set.slot(program, operand.slot).name;
        }
      }
    }
  }
}

TEST(HomesTest, PlansThatDoNotGoTogether_AreRefused) {
  const auto refusal = [](const Plan& plan) {
    return std::string(Compose(ToyGraph({}), plan, ToyUpdate).status().message());
  };
  Plan plan = OnHost();
  plan.tier = Tier::kHost;
  EXPECT_THAT(refusal(plan), HasSubstr("no device"));
  plan = OnHost();
  plan.update = UpdatePolicy::kSpooled;
  plan.places.gradients = {};
  EXPECT_THAT(refusal(plan), HasSubstr("spooled gradients wait in host memory or on SSD"));
  plan = OnSsd(UpdatePolicy::kSpeculative);
  plan.slabs = 4;
  EXPECT_THAT(refusal(plan), HasSubstr("4 slabs, an update needs 5"));
  plan = OnHost();
  plan.streaming = {.resident = 2, .moved = 3};
  EXPECT_THAT(refusal(plan), HasSubstr("3 layers moved at once, of 2 that are resident"));
}

TEST(HomesTest, FractionsAreMetByWholeUnitsOfWhichTheDeviceNeverHasMoreThanItsPart) {
  EXPECT_THAT(HomesOf({.host = 0.5}, {10, 10, 10, 10}),
              ElementsAre(Home::kHost, Home::kDevice, Home::kHost, Home::kDevice));
  EXPECT_THAT(HomesOf({.host = 0.5}, {0, 30, 10}),
              ElementsAre(Home::kDevice, Home::kHost, Home::kDevice));
  EXPECT_THAT(HomesOf({.ssd = 1}, {5, 0, 5}), ElementsAre(Home::kSsd, Home::kDevice, Home::kSsd));
  std::mt19937_64 random(7);
  const auto below = [&](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
  for (int round = 0; round < 500; ++round) {
    std::vector<int64_t> bytes(1 + below(20));
    int64_t all = 0, largest = 0;
    for (int64_t& each : bytes) {
      each = below(1000);
      all += each;
      largest = std::max(largest, each);
    }
    const double host = 0.01 * static_cast<double>(below(101));
    const double ssd = (1 - host) * 0.01 * static_cast<double>(below(101));
    const double unified = (1 - host - ssd) * 0.01 * static_cast<double>(below(101));
    const std::vector<Home> homes = HomesOf({.host = host, .ssd = ssd, .unified = unified}, bytes);
    std::map<Home, int64_t> given;
    for (size_t i = 0; i < bytes.size(); ++i) given[homes[i]] += bytes[i];
    const int64_t on_device = given[Home::kDevice], in_unified = given[Home::kUnified];
    const double device = 1 - host - ssd - unified;
    EXPECT_LE(on_device, device * all + 1);
    EXPECT_LE(on_device + in_unified, (device + unified) * all + 1);
    EXPECT_LE(on_device + in_unified + given[Home::kHost], (1 - ssd) * all + 1);
    // Nor is any short of its part by more than the largest of each.
    EXPECT_GE(on_device, device * all - 3 * largest);
  }
}

// Whoever shares what: ranks meet on the device, whatever has its home elsewhere.
TEST(HomesTest, EveryLayoutWithEveryClassElsewhere_IsVerified) {
  struct Layout {
    int data, shard, pipeline;
    ShardLevel level;
  };
  for (const Layout& layout :
       {Layout{2, 1, 1, ShardLevel::kNone}, Layout{2, 2, 1, ShardLevel::kOptimizer},
        Layout{4, 2, 1, ShardLevel::kGradients}, Layout{4, 2, 1, ShardLevel::kParameters},
        Layout{1, 1, 2, ShardLevel::kNone}, Layout{2, 2, 2, ShardLevel::kOptimizer}}) {
    for (const Place& place : {Place{.host = 1}, Place{.ssd = 1}, Place{.host = 0.4, .ssd = 0.3}}) {
      for (const UpdatePolicy policy : {UpdatePolicy::kSpooled, UpdatePolicy::kSpeculative}) {
        for (const bool tied : {false, true}) {
          Plan plan = OnSsd(policy, 8);
          plan.places = {place, place, place, place};
          plan.groups = {.data = layout.data, .pipeline = layout.pipeline, .shard = layout.shard};
          plan.shard = layout.level;
          plan.virtual_shards = 4;
          plan.streaming = {.resident = 2, .moved = 2};
          plan.range_bytes = tied ? kRangeElements * 4 : 0;
          auto built = Compose(ToyGraph({.blocks = kBlocks, .tied = tied}), plan, ToyUpdate);
          ASSERT_TRUE(built.ok()) << built.status();
          std::vector<const ProgramSet*> sets;
          for (const StagePrograms& stage : *built) sets.push_back(&stage.set);
          for (const char* program : {"train", "evaluate"}) {
            const absl::Status status = Verify(sets, program, {.sizes = plan.groups});
            ASSERT_TRUE(status.ok())
                << status << ": data " << layout.data << " pipeline " << layout.pipeline
                << " level " << static_cast<int>(layout.level) << " tied " << tied << " policy "
                << static_cast<int>(policy) << " ssd " << place.ssd;
          }
        }
      }
    }
  }
}

// What layers need at a time: a block and the next one.
TEST(HomesTest, PeaksOnTheHost_AreWhatOneWorksOutByHand) {
  const ProgramSet set = Build(OnHost()).set;
  // Parameters, two moments, scalars and those of updates persist; the targets are there while
  // evaluating, and the tokens until they are on the device.
  const int64_t state = 3 * kParameters + 2 * kScalarBytes;
  EXPECT_EQ(MemoryOf(set, "evaluate", Tier::kHost).persistent_bytes, state);
  EXPECT_EQ(MemoryOf(set, "evaluate", Tier::kHost).peak_bytes, state + 2 * 16 * 4);
  // Training, all gradients come.
  EXPECT_EQ(MemoryOf(set, "train", Tier::kHost).peak_bytes, state + kParameters);
  // Three blocks; the targets, the loss, scalars; input, output, locals and what is saved of a
  // block.
  EXPECT_EQ(MemoryOf(set, "evaluate", Tier::kDevice).peak_bytes,
            3 * toy::kBlockSet + 16 * 4 + 8 + kScalarBytes + 2 * toy::kBoundary +
                toy::kForwardLocal + toy::kSaved);
}

TEST(HomesTest, DeviceMemory_DoesNotGrowWithLayersButByWhatTheySave) {
  const auto bytes = [](int blocks, const Plan& plan) {
    const auto built = Compose(ToyGraph({.blocks = blocks}), plan, ToyUpdate);
    EXPECT_TRUE(built.ok()) << built.status();
    return (*built)[0].set.arena(Tier::kDevice);
  };
  for (const Plan& plan : {OnHost(2), OnSsd(UpdatePolicy::kSpooled),
                           OnSsd(UpdatePolicy::kSpeculative), Shared(OnHost(2), 2)}) {
    EXPECT_EQ(bytes(24, plan) - bytes(8, plan), 16 * (toy::kBoundary + toy::kSaved));
  }
}

// State and its updates stay on the device: parameters come for their uses, what updates make of
// them is there until it is home.
TEST(HomesTest, DeviceMemory_GrowsByWhatBelongsThereOfALayer_NotByItsParameters) {
  const auto bytes = [](int blocks, const Plan& plan) {
    const auto built = Compose(ToyGraph({.blocks = blocks}), plan, ToyUpdate);
    EXPECT_TRUE(built.ok()) << built.status();
    const absl::Status status = VerifyAll((*built)[0].set);
    EXPECT_TRUE(status.ok()) << status;
    return (*built)[0].set.arena(Tier::kDevice);
  };
  constexpr int64_t kSaves = toy::kBoundary + toy::kSaved, kState = 2 * toy::kBlockSet;
  for (const Place& home : {Place{.host = 1}, Place{.ssd = 1}, Place{.unified = 1}}) {
    for (const int resident : {1, 2, 4}) {
      Plan plan = OnHost(2);
      plan.places = {.parameters = home};
      plan.streaming = {.resident = resident};
      EXPECT_EQ(bytes(16, plan) - bytes(8, plan), 8 * (kState + toy::kBlockSet + kSaves));
      plan.places.gradients = {.host = 1};
      EXPECT_EQ(bytes(16, plan) - bytes(8, plan), 8 * (kState + kSaves));
      plan.places.activations = {.host = 1};
      EXPECT_EQ(bytes(16, plan) - bytes(8, plan), 8 * kState);
    }
  }
}

TEST(HomesTest, PeaksOnSsd_AreWhatOneWorksOutByHand) {
  for (const UpdatePolicy policy : {UpdatePolicy::kSpooled, UpdatePolicy::kSpeculative}) {
    const ProgramSet set = Build(OnSsd(policy)).set;
    const bool speculative = policy == UpdatePolicy::kSpeculative;
    // Parameters and moments, in two versions when updated speculatively; what waits of the
    // gradients: the first micro-batch's, of which the norm's ends first.
    const TierMemory ssd = MemoryOf(set, "train", Tier::kSsd);
    EXPECT_EQ(ssd.persistent_bytes, 3 * kParameters * (speculative ? 2 : 1));
    EXPECT_EQ(ssd.peak_bytes - ssd.persistent_bytes, kParameters);
    // The slabs of updates, those of passes each way of half their size, scalars.
    EXPECT_EQ(MemoryOf(set, "train", Tier::kHost).peak_bytes,
              (8 + 2 * 2 / 2) * toy::kBlockSet + (speculative ? 3 : 2) * kScalarBytes)
        << speculative;
  }
}

TEST(HomesTest, FetchesAreHidden_WhereTheBudgetAllowsToBringThemAhead) {
  // A fetch of a block takes as long as a block's forward.
  const RateCostModel costs({.flops_per_second = 1e9,
                             .memory_bytes_per_second = 1e12,
                             .link_bytes_per_second = 0.75 * toy::kBlockSet / 1e-3,
                             .link_latency_seconds = 0});
  double exposed[2] = {};
  for (const bool ahead : {false, true}) {
    Plan plan = Shared(OnHost(4), 4);
    plan.prefetch_bytes = ahead ? 2 * toy::kBlockSet : 0;
    const ProgramSet set = Build(plan).set;
    const auto timeline = PredictTimeline({&set}, "train", {.sizes = set.groups}, costs);
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    exposed[ahead] = timeline->ranks[0].exposed_seconds;
    EXPECT_THAT(timeline->Draw(0, 60), HasSubstr("parameters"));
  }
  EXPECT_LT(exposed[1], 0.8 * exposed[0]);
}

TEST(HomesTest, DumpsAreStable) {
  const struct {
    const char* name;
    ProgramSet set;
    const char* program;
  } cases[] = {{"ssd_spooled", Build(OnSsd(UpdatePolicy::kSpooled)).set, "train"},
               {"ssd_speculative", Build(OnSsd(UpdatePolicy::kSpeculative)).set, "train"},
               {"streaming_forward", Build(OnHost()).set, "evaluate"},
               {"streaming_train", Build(OnHost()).set, "train"}};
  for (const auto& [name, set, program] : cases) {
    EXPECT_EQ(CompareWithGolden(absl::StrCat("program/compose/goldens/", name, ".txt"),
                                Dump(set, *set.find(program))),
              "");
  }
}

// The scalars that an instruction's call reads or writes; its last operand of that slot.
Operand ScalarsOf(const ProgramSet& set, const Instruction& instruction) {
  Operand found;
  for (const Operand& operand : instruction.operands) {
    if (operand.slot == set.scalars) found = operand;
  }
  return found;
}

// It runs before the step's factor is known: what it reads is what the host wrote.
TEST(HomesTest, SpeculativeUpdate_SeesAClipFactorThatTheHostWrote) {
  for (const UpdatePolicy policy : {UpdatePolicy::kSpooled, UpdatePolicy::kSpeculative}) {
    const ProgramSet set = Build(OnSsd(policy)).set;
    const Program& train = *set.find("train");
    const bool speculative = policy == UpdatePolicy::kSpeculative;
    const Instruction& load = train.instructions[IndexOf(train, "load scalars")];
    const Operand written = ScalarsOf(set, load);
    EXPECT_EQ(written.bytes > ScalarOffset(Scalar::kClipFactor), speculative);
    EXPECT_LE(written.bytes, ScalarOffset(Scalar::kApply));
    const int finish = IndexOf(train, "finish");
    int updates = 0;
    for (size_t i = 0; i < train.instructions.size(); ++i) {
      const Instruction& update = train.instructions[i];
      if (!absl::StartsWith(update.label, "update ")) continue;
      ++updates;
      EXPECT_EQ(static_cast<int>(i) < finish, speculative) << update.label;
      EXPECT_EQ(update.predicate.has_value(), !speculative) << update.label;
    }
    EXPECT_EQ(updates, kSets);
  }
}

// The next step's scalars do not wait for them: what they read is a copy of its own.
TEST(HomesTest, UpdatesOnTheHost_DoNotReadWhatTheNextStepWrites) {
  for (const UpdatePolicy policy : {UpdatePolicy::kSpooled, UpdatePolicy::kSpeculative}) {
    const ProgramSet set = Build(OnSsd(policy)).set;
    int updates = 0;
    for (const Instruction& instruction : set.find("train")->instructions) {
      if (instruction.stream != Stream::kUpdate) continue;
      ++updates;
      EXPECT_EQ(ScalarsOf(set, instruction).slot, -1) << instruction.label;
    }
    EXPECT_GE(updates, kSets);
  }
}

// Which elements decay follows from the operand's shard group.
TEST(HomesTest, UpdateOfAPart_KnowsItsPlaceInTheShardGroup) {
  for (const Plan& plan : {Shared(OnHost(2), 2), Shared(OnSsd(UpdatePolicy::kSpooled), 2),
                           Shared(OnSsd(UpdatePolicy::kSpeculative), 2)}) {
    const ProgramSet set = Build(plan).set;
    int parts = 0, wholes = 0;
    for (const Instruction& instruction : set.find("train")->instructions) {
      const bool update = absl::StartsWith(instruction.label, "update ");
      if (!update && !absl::StartsWith(instruction.label, "fix up ")) continue;
      const bool whole = absl::StrContains(instruction.label, "norm");
      const Operand& parameters = instruction.operands.front();
      EXPECT_EQ(parameters.shard_group, whole ? Group::kNone : Group::kData) << instruction.label;
      EXPECT_EQ(parameters.shard_stride, 0) << instruction.label;
      ++(whole ? wholes : parts);
    }
    const int calls = plan.update == UpdatePolicy::kSpeculative ? 2 : 1;
    EXPECT_EQ(parts, calls * (kSets - 1));
    EXPECT_EQ(wholes, calls);
  }
}

TEST(HomesTest, RemovedDependencyOfAFetch_IsARace) {
  for (const char* name : {"train", "evaluate"}) {
    ProgramSet set = Build(OnHost()).set;
    Program& program = *std::find_if(set.programs.begin(), set.programs.end(),
                                     [&](const Program& p) { return p.name == name; });
    Instruction& fetch = program.instructions[IndexOf(program, "fetch block 2 micro 0")];
    ASSERT_FALSE(fetch.dependencies.empty());
    fetch.dependencies.clear();
    const std::string message(Verify({&set}, name, {.sizes = set.groups}).message());
    EXPECT_THAT(message, HasSubstr("race"));
    EXPECT_THAT(message, HasSubstr("fetch block 2 micro 0"));
  }
}

// Updates take turns with the same bytes: each waits until those of an earlier one are home.
TEST(HomesTest, RemovedDependencyOfAnUpdateOnAStash_IsARace) {
  Plan plan = OnHost();
  plan.places.optimizer = {};
  const ProgramSet set = Build(plan).set;
  int waits = 0;
  for (size_t i = 0; i < set.programs[0].instructions.size(); ++i) {
    const auto stashes = [&](const Dependency& dependency) {
      return dependency.steps_back == 0 &&
             set.programs[0].instructions[dependency.instruction].stream == Stream::kEvict;
    };
    const Instruction& update = set.programs[0].instructions[i];
    if (update.purpose != Purpose::kUpdate) continue;
    if (std::none_of(update.dependencies.begin(), update.dependencies.end(), stashes)) continue;
    ++waits;
    ProgramSet without = set;
    std::erase_if(without.programs[0].instructions[i].dependencies, stashes);
    const std::string message(Verify({&without}, "train", {.sizes = set.groups}).message());
    EXPECT_THAT(message, AllOf(HasSubstr("race"), HasSubstr(update.label))) << i;
  }
  EXPECT_GT(waits, 0);
}

TEST(HomesTest, MissingReductionBeforeGradientsGoHome_IsRefused) {
  ProgramSet set = Build(Shared(OnHost(4), 4)).set;
  Program& program = set.programs[0];
  Instruction& reduce = program.instructions[IndexOf(program, "reduce block 2 leaf 3")];
  reduce.mechanism = Mechanism::kTransfer;  // copies this rank's own partial sum instead
  reduce.operands.resize(2);
  reduce.operands[0].bytes = reduce.operands[1].bytes;
  reduce.operands[1].partial = reduce.operands[0].partial;
  const std::string message(Verify({&set}, "train", {.sizes = set.groups}).message());
  EXPECT_THAT(message, HasSubstr("gradient of block 2 leaf 3"));
  EXPECT_THAT(message, HasSubstr("must be complete but is a partial sum over data"));
}

TEST(HomesTest, SpeculativeStateOnOneCopy_IsRefused) {
  ProgramSet set = Build(OnSsd(UpdatePolicy::kSpeculative)).set;
  for (Placement& placement : set.placements) placement.copies = 1;
  const std::string message(Verify({&set}, "train", {.sizes = set.groups}).message());
  EXPECT_THAT(message, HasSubstr("it holds version 1, not 0"));
}

TEST(HomesTest, SlabUsedTwiceAtOnce_IsRefused) {
  ProgramSet set = Build(OnSsd(UpdatePolicy::kSpooled)).set;
  Program& program = set.programs[0];
  int slabs[2] = {-1, -1};
  for (size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].name == "slab in 0") slabs[0] = static_cast<int>(s);
    if (program.slots[s].name == "slab in 1") slabs[1] = static_cast<int>(s);
  }
  program.placements[slabs[1]].offset = program.placements[slabs[0]].offset;
  const std::string message(Verify({&set}, "train", {.sizes = set.groups}).message());
  EXPECT_THAT(message, HasSubstr("slab"));
  EXPECT_THAT(message, AnyOf(HasSubstr("race"), HasSubstr("overwritten")));
}

}  // namespace
}  // namespace strata::program
