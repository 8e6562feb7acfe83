#include "worker/trainer/state_io.h"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/tensor_source.h"
#include "collectives/loopback.h"
#include "common/rng.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/initialize.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "worker/engine/communication_binding.h"
#include "worker/engine/small_model.h"

namespace strata::worker {
namespace {

program::Plan PlanOf(int shards) {
  program::Plan plan;
  plan.groups.data = plan.groups.shard = shards;
  plan.shard = program::ShardLevel::kParameters;
  plan.virtual_shards = 4;
  plan.global_batch = plan.evaluate_batch = kSmallBatch;
  plan.scratch = CollectiveScratchBytes;
  return plan;
}

// The whole tensor's elements are numbers of their own.
class Numbers final : public checkpoint::TensorSource {
 public:
  static float At(const std::string& name, int64_t index) {
    return common::NormalAt(std::hash<std::string>{}(name), static_cast<uint64_t>(index));
  }
  absl::Status ReadRegion(const std::string& name, const checkpoint::Region& region,
                          float* out) override {
    for (int64_t i = region.begin; i < region.end; ++i) *out++ = At(name, i);
    return absl::OkStatus();
  }
};

struct Rank {
  std::optional<TextHost> host;
  device::ThreadPool pool{1};
  RankState state;
  std::unique_ptr<Engine> engine;
};

void Open(const program::Plan& plan, int rank, int64_t vocab,
          collectives::Communicator* communicator, Rank& made) {
  model::ModelSpec spec = SmallModel();
  spec.vocab = vocab;
  auto graph = model::EmitFamily(spec, SmallEmission());
  ASSERT_TRUE(graph.ok()) << graph.status();
  auto decision = program::Decide(*std::move(graph), plan);
  ASSERT_TRUE(decision.ok()) << decision.status();
  auto built = program::ComposeStage(
      *decision, 0, [](const program::ParameterSet& set, const program::UpdateRange& range) {
        return model::EmitAdamW(set, {}, range);
      });
  ASSERT_TRUE(built.ok()) << built.status();
  const program::Mesh mesh{.sizes = plan.groups};
  made.host.emplace(mesh.data(rank), decision->leaves);
  EngineOptions options;
  options.pool = &made.pool;
  options.host = &*made.host;
  options.communicator = communicator;
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  made.state = StateOf(built->slots, mesh, rank);
  auto engine = Engine::Create(std::move(built->set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  made.engine = *std::move(engine);
}

// `body(rank)` on each rank of a world.
void OnRanks(int shards, int64_t vocab, const std::function<void(Rank&)>& body) {
  auto communicators = collectives::LoopbackWorld(shards);
  std::vector<std::thread> ranks;
  for (int r = 0; r < shards; ++r) {
    ranks.emplace_back([&, r] {
      Rank rank;
      Open(PlanOf(shards), r, vocab, shards > 1 ? communicators[r].get() : nullptr, rank);
      if (rank.engine != nullptr) body(rank);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// The rank's part of a set, which `expected(set, begin)` makes from element `begin` on.
void ExpectSets(const Rank& rank,
                const std::function<std::vector<float>(const program::ParameterSet&, int64_t,
                                                       int64_t)>& expected) {
  const std::vector<program::StateSlots::Set>& sets = rank.state.slots.sets;
  ASSERT_FALSE(sets.empty());
  for (size_t s = 0; s < sets.size(); ++s) {
    const absl::Span<float> values = FloatsOf(*rank.engine, sets[s].parameters, 0);
    const auto count = static_cast<int64_t>(values.size());
    const int64_t begin = sets[s].parameter_parts > 1 ? rank.state.shard * count : 0;
    const std::vector<float> want = expected(rank.engine->programs().sets[s], begin, count);
    EXPECT_EQ(std::memcmp(values.data(), want.data(), want.size() * sizeof(float)), 0)
        << "set " << s << " of shard " << rank.state.shard;
  }
}

TEST(InitialiseStateTest, AnyThreadsAndShards_HaveTheSameBits) {
  constexpr int64_t kVocabulary = 3001;  // several pieces, the last one short
  for (const int shards : {1, 2}) {
    OnRanks(shards, kVocabulary, [](Rank& rank) {
      for (const int threads : {1, 2, 5}) {
        device::ThreadPool pool(threads);
        const uint64_t seed = 7 + threads;  // so that each run writes all
        const absl::Status status =
            InitialiseState(*rank.engine, rank.state, Sets::kAll, seed, pool);
        ASSERT_TRUE(status.ok()) << status;
        ExpectSets(rank, [seed](const program::ParameterSet& set, int64_t begin, int64_t count) {
          std::vector<float> values(static_cast<size_t>(count));
          model::FillInitial(set, seed, begin, absl::MakeSpan(values));
          return values;
        });
      }
    });
  }
}

// Whatever was there, padding included.
TEST(LoadWeightsTest, EachElementOfSeveralWindows_IsTheSources) {
  constexpr int64_t kVocabulary = 100'003;  // times 24, and padding in the third window
  for (const int shards : {1, 2}) {
    OnRanks(shards, kVocabulary, [](Rank& rank) {
      for (const program::StateSlots::Set& set : rank.state.slots.sets) {
        for (float& value : FloatsOf(*rank.engine, set.parameters, 0)) value = -7;
      }
      Numbers numbers;
      const absl::Status status = LoadWeights(*rank.engine, rank.state, Sets::kAll, numbers);
      ASSERT_TRUE(status.ok()) << status;
      ExpectSets(rank, [](const program::ParameterSet& set, int64_t begin, int64_t count) {
        std::vector<float> values(static_cast<size_t>(count));
        for (const program::ElementRun& run : ElementRuns(set, 0, begin, begin + count)) {
          for (int64_t i = 0; i < run.count; ++i) {
            values[run.flat - begin + i] =
                Numbers::At(set.tensors[run.tensor].logical_name(run.part), run.first + i);
          }
        }
        return values;
      });
    });
  }
}

}  // namespace
}  // namespace strata::worker
