#include "worker/trainer/state_io.h"

#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
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

// All sets of a rank, initialised by so many threads.
void Initialise(const program::Plan& plan, int rank, int threads, uint64_t seed,
                collectives::Communicator* communicator, std::vector<std::vector<float>>& values) {
  model::ModelSpec spec = SmallModel();
  spec.vocab = 3001;  // several pieces, the last one short
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
  TextHost host(mesh.data(rank), decision->leaves);
  device::ThreadPool own(1), pool(threads);
  EngineOptions options;
  options.pool = &own;
  options.host = &host;
  options.communicator = communicator;
  for (const program::Group group : program::kGroups) {
    options.groups[group] = mesh.Members(group, rank);
  }
  const RankState state = StateOf(built->slots, mesh, rank);
  auto engine = Engine::Create(std::move(built->set), options);
  ASSERT_TRUE(engine.ok()) << engine.status();
  const absl::Status status = InitialiseState(**engine, state, Sets::kAll, seed, pool);
  ASSERT_TRUE(status.ok()) << status;
  for (const program::StateSlots::Set& set : state.slots.sets) {
    const absl::Span<float> all = FloatsOf(**engine, set.parameters, 0);
    values.emplace_back(all.begin(), all.end());
  }
  for (size_t s = 0; s < values.size(); ++s) {
    const program::ParameterSet& set = (*engine)->programs().sets[s];
    const auto count = static_cast<int64_t>(values[s].size());
    const bool cut = state.slots.sets[s].parameter_parts > 1;
    std::vector<float> want(values[s].size());
    model::FillInitial(set, seed, cut ? state.shard * count : 0, absl::MakeSpan(want));
    EXPECT_EQ(std::memcmp(values[s].data(), want.data(), want.size() * sizeof(float)), 0)
        << "set " << s << " of rank " << rank << " with " << threads << " threads";
  }
}

TEST(InitialiseStateTest, AnyThreadsAndShards_HaveTheSameBits) {
  for (const int shards : {1, 2}) {
    auto communicators = collectives::LoopbackWorld(shards);
    for (const int threads : {1, 2, 5}) {
      std::vector<std::thread> ranks;
      std::vector<std::vector<std::vector<float>>> values(shards);
      for (int rank = 0; rank < shards; ++rank) {
        ranks.emplace_back([&, rank] {
          Initialise(PlanOf(shards), rank, threads, 7,
                     shards > 1 ? communicators[rank].get() : nullptr, values[rank]);
        });
      }
      for (std::thread& rank : ranks) rank.join();
      EXPECT_FALSE(values[0].empty());
      EXPECT_TRUE(shards == 1 || values[0] != values[1]);
    }
  }
}

}  // namespace
}  // namespace strata::worker
