// What the timeline calls hidden can happen beside the compute that hides it: the executor's calls
// leave the two unordered. Read from vector clocks, in which neither luck nor an order of execution
// has a part.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "device/standin/order.h"
#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "program/passes/expand.h"
#include "program/readers/timeline.h"
#include "worker/engine/cuda/standin_training.h"

namespace strata::worker {
namespace {

using program::Stream;
using standin::Piece;
using standin::StreamOrder;

constexpr StreamOrder kOrders[] = {StreamOrder::kProgram, StreamOrder::kLatest,
                                   StreamOrder::kRandom};
constexpr int kSteps = 4, kLooked = 2;  // of the engine: graphs are there, and a step follows

// An action beside the compute stream, and one there while which the timeline has it going on.
struct Hidden {
  int action = 0, compute = 0;
  int later = 0;  // steps of `compute` behind the action's
  bool operator<(const Hidden& other) const {
    return std::tie(action, compute, later) < std::tie(other.action, other.compute, other.later);
  }
};

bool IsCopyOrCollective(const program::ProgramSet& set, const program::Action& action) {
  if (action.is_communication()) return set.groups.of(action.communication.group) > 1;
  constexpr Stream kCopies[] = {Stream::kFetch, Stream::kEvict, Stream::kUpdateFetch,
                                Stream::kUpdateEvict};
  return action.mechanism == program::Mechanism::kTransfer &&
         std::count(std::begin(kCopies), std::end(kCopies), action.stream) > 0;
}

// On a machine whose copies take as long as a product or two.
std::set<Hidden> HiddenInTimeline(const program::ProgramSet& set) {
  const program::RateCostModel costs({.flops_per_second = 1e9,
                                      .memory_bytes_per_second = 1e9,
                                      .link_bytes_per_second = 2e8,
                                      .link_latency_seconds = 1e-6,
                                      .transfer_bytes_per_second = 2e8});
  const auto timeline = program::PredictTimeline({&set}, "train", {.sizes = set.groups}, costs);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  if (!timeline.ok()) return {};
  const program::RankTimes& times = timeline->walked.ranks[0];
  const std::vector<program::Action>& actions = times.expanded->actions;
  const int count = static_cast<int>(actions.size());
  constexpr int kStep = 2;  // of the four walked
  std::set<Hidden> hidden;
  for (int a = 0; a < count; ++a) {
    if (!IsCopyOrCollective(set, actions[a])) continue;
    const program::Span& span = times.spans[kStep * count + a];
    for (int node = 0; node < static_cast<int>(times.spans.size()); ++node) {
      if (actions[node % count].stream != Stream::kCompute) continue;
      const program::Span& compute = times.spans[node];
      const double both = std::min(span.end, compute.end) - std::max(span.begin, compute.begin);
      if (both > 1e-9) hidden.insert({a, node % count, node / count - kStep});
    }
  }
  return hidden;
}

// Whether the step of the engine that issued the action ends behind it: RunStep waits for what the
// host reads, which the timeline's steps do not.
bool EndsWithItsStep(StandinTraining& training, int rank, const Piece& piece) {
  const program::ProgramSet& set = training.outcome(rank).programs;
  const std::vector<program::Action> actions = program::Expand(set, *set.find("train")).actions;
  for (int a = 0; a < static_cast<int>(actions.size()); ++a) {
    if (actions[a].stream != Stream::kHost) continue;
    for (const Piece& of_host : training.PiecesOf(rank, a, kLooked)) {
      if (standin::IsBefore(piece, of_host)) return true;
    }
  }
  return false;
}

// Whether the two may go on at once; null: one of them does nothing, or the engine's steps are
// between them.
std::optional<bool> AreConcurrent(StandinTraining& training, int rank, const Hidden& hidden) {
  const std::vector<Piece>& all = training.PiecesOf(rank, hidden.action, kLooked);
  const std::vector<Piece>& computing =
      training.PiecesOf(rank, hidden.compute, kLooked + hidden.later);
  if (all.empty() || computing.empty()) return std::nullopt;
  if (hidden.later > 0 && EndsWithItsStep(training, rank, all.back())) return std::nullopt;
  // Where ranks communicate, a step ends with its compute.
  if (hidden.later < 0 && training.ranks() > 1) return std::nullopt;
  return std::all_of(all.begin(), all.end(), [&](const Piece& piece) {
    return std::all_of(computing.begin(), computing.end(),
                       [&](const Piece& other) { return standin::AreConcurrent(piece, other); });
  });
}

struct Judged {
  std::set<int> hidden;               // actions that are, all told
  std::vector<std::string> in_order;  // pairs that cannot go on at once
};

Judged Judge(StandinTraining& training, int rank) {
  Judged judged;
  for (const Hidden& hidden : HiddenInTimeline(training.outcome(rank).programs)) {
    const std::optional<bool> concurrent = AreConcurrent(training, rank, hidden);
    if (!concurrent.has_value()) continue;
    judged.hidden.insert(hidden.action);
    if (*concurrent) continue;
    judged.in_order.push_back(absl::StrCat(
        training.watch(rank).LabelOf(0, hidden.action), " beside ",
        training.watch(rank).LabelOf(0, hidden.compute), ", ", hidden.later, " steps later"));
  }
  return judged;
}

Training Short() {
  Training training = TinyTraining();
  training.steps = kSteps;
  return training;
}

Training DataParallel() {
  Training training = Short();
  training.emission.micro_batch = kSmallBatch / 2;
  training.plan.groups.data = 2;
  training.plan.virtual_shards = 0;  // sums are NCCL's, in no tree
  return training;
}

Training WithOptimizerOnHost() {
  Training training = Short();
  training.plan.places.optimizer = {.host = 1};
  return training;
}

// Two layers on the device at once, of which one makes room for the next.
Training WithLayersStreamed() {
  Training training = Short();
  training.spec.layers = 4;
  training.plan.places.parameters = {.host = 1};
  training.plan.streaming = {.resident = 2, .moved = 1};
  return training;
}

class OverlapTest : public testing::TestWithParam<int> {  // actions that make a graph
 protected:
  // `least`: actions beside compute that are hidden.
  static void ExpectHiddenIsConcurrent(const Training& of, int least) {
    for (const StreamOrder order : kOrders) {
      SCOPED_TRACE(static_cast<int>(order));
      StandinTraining training(of, order, GetParam(), order == StreamOrder::kRandom);
      training.Run();
      if (HasFatalFailure()) return;
      for (int rank = 0; rank < training.ranks(); ++rank) {
        const Judged judged = Judge(training, rank);
        EXPECT_THAT(judged.in_order, testing::IsEmpty());
        EXPECT_GE(static_cast<int>(judged.hidden.size()), least);
      }
    }
  }
};

TEST_P(OverlapTest, SumsOfGradientsUnderTheRestOfBackward) {
  ExpectHiddenIsConcurrent(DataParallel(), 3);
}

TEST_P(OverlapTest, CopiesOfUpdatesOnTheHost) {
  ExpectHiddenIsConcurrent(WithOptimizerOnHost(), 3);
}

TEST_P(OverlapTest, CopiesOfLayersThatAreStreamed) {
  ExpectHiddenIsConcurrent(WithLayersStreamed(), 3);
}

// Whether the batch of the step after kLooked comes to the device beside that step's updates.
void ExpectBatchUnderUpdates(StandinTraining& training, int rank, bool expected) {
  const program::ProgramSet& set = training.outcome(rank).programs;
  const program::Program& program = *set.find("train");
  const std::vector<program::Action> actions = program::Expand(set, program).actions;
  std::vector<const Piece*> loads, updates;
  const auto add = [&](int action, int64_t step, std::vector<const Piece*>& to) {
    for (const Piece& piece : training.PiecesOf(rank, action, step)) to.push_back(&piece);
  };
  for (int a = 0; a < static_cast<int>(actions.size()); ++a) {
    const program::Instruction& of = program.instructions[actions[a].instruction];
    if (of.label == "load batch" || of.label == "tokens to the device") add(a, kLooked + 1, loads);
    if (of.purpose == program::Purpose::kUpdate) add(a, kLooked, updates);
  }
  ASSERT_GE(loads.size(), 2);
  ASSERT_FALSE(updates.empty());
  for (const Piece* load : loads) {
    for (const Piece* update : updates) {
      EXPECT_EQ(standin::AreConcurrent(*load, *update), expected)
          << load->label << " beside " << update->label;
    }
  }
}

TEST_P(OverlapTest, TheNextBatchUnderTheUpdatesOfADeviceThatIsAlone) {
  for (const StreamOrder order : kOrders) {
    StandinTraining training(Short(), order, GetParam());
    training.Run();
    if (HasFatalFailure()) return;
    ExpectBatchUnderUpdates(training, 0, true);
  }
}

TEST_P(OverlapTest, NoNextBatchBeforeTheEndOfAStepInWhichRanksCommunicate) {
  StandinTraining training(DataParallel(), StreamOrder::kProgram, GetParam());
  training.Run();
  if (HasFatalFailure()) return;
  for (int rank = 0; rank < training.ranks(); ++rank) {
    ExpectBatchUnderUpdates(training, rank, false);
  }
}

TEST_P(OverlapTest, TheHostWaitsOnceInAStepOfADeviceThatIsAlone_ForItsResults) {
  for (const StreamOrder order : kOrders) {
    int64_t waits[2] = {};
    for (const bool longer : {false, true}) {
      Training of = Short();
      of.steps = longer ? 2 * kSteps : kSteps;
      StandinTraining training(of, order, GetParam(), /*check=*/false);
      training.Run();
      if (HasFatalFailure()) return;
      for (const char* call :
           {"cudaEventSynchronize", "cudaStreamSynchronize", "cudaDeviceSynchronize"}) {
        waits[longer] += standin::CallsOf(call);
      }
    }
    EXPECT_EQ(waits[true] - waits[false], kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(OneByOne, OverlapTest, testing::Values(0));
INSTANTIATE_TEST_SUITE_P(AsGraphs, OverlapTest, testing::Values(2));

// An event too many loses no value and is no race: only clocks tell.
TEST(OverlapMistakesTest, AnEventThatPutsACopyBeforeWhatHidesItIsFound) {
  const Training of = WithLayersStreamed();
  StandinTraining plain(of, StreamOrder::kProgram, 0, /*check=*/false);
  plain.Run();
  const std::set<Hidden> all = HiddenInTimeline(plain.outcome(0).programs);
  const auto planted = std::find_if(all.begin(), all.end(), [&](const Hidden& hidden) {
    return hidden.later == 0 && hidden.action < hidden.compute &&
           AreConcurrent(plain, 0, hidden).has_value();
  });
  ASSERT_NE(planted, all.end());
  for (const StreamOrder order : kOrders) {
    StandinTraining training(of, order, 0, /*check=*/false);
    cudaStream_t copying = nullptr;
    training.watch(0).before = [&](const IssuedAction& what, device::Stream& stream) {
      const auto handle = [&] { return static_cast<device::CudaStream&>(stream).handle(); };
      if (what.program == 0 && what.action == planted->action) copying = handle();
      if (what.program != 0 || what.action != planted->compute) return;
      cudaEvent_t event = nullptr;
      STRATA_EXPECT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
      STRATA_EXPECT_CUDA(cudaEventRecord(event, copying));
      STRATA_EXPECT_CUDA(cudaStreamWaitEvent(handle(), event, 0));
      STRATA_EXPECT_CUDA(cudaEventDestroy(event));
    };
    training.Run();
    const Judged judged = Judge(training, 0);
    EXPECT_THAT(judged.in_order,
                testing::Contains(testing::AllOf(
                    testing::HasSubstr(plain.watch(0).LabelOf(0, planted->action)),
                    testing::HasSubstr(plain.watch(0).LabelOf(0, planted->compute)))));
  }
}

}  // namespace
}  // namespace strata::worker
