#include "worker/trainer/plan_digest.h"

#include <functional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using program::LayerGraph;
using program::ParameterSet;
using program::Plan;
using program::Template;

struct Decided {
  LayerGraph graph;
  Plan plan;
  double decay = 0.1;  // of the update
  program::Mesh mesh = {};
};

std::string DigestOf(const Decided& decided, const std::string& build = "build") {
  const program::UpdateEmitter update = [&](const ParameterSet&,
                                            const program::UpdateRange& range) {
    Template tmpl{.name = "update"};
    program::Op op;
    op.ints = {range.first, range.count, range.stride};
    op.floats = {decided.decay};
    tmpl.ops.push_back(op);
    return tmpl;
  };
  return PlanDigest(decided.graph, decided.plan, update, decided.mesh, build);
}

Decided Example() {
  Decided decided;
  decided.graph.templates = {{.name = "forward", .formals = {{.name = "x", .bytes = 64}}}};
  decided.graph.sets = {
      {.name = "block 0", .tensors = {{.name = "w", .shape = {4, 4}}}, .elements = 16}};
  decided.graph.constants = {{"rope", 128}};
  decided.graph.layers = {{.name = "block 0", .templates = {.forward = 0}, .sets = {0}}};
  decided.graph.micro_batch = 1;
  decided.plan.global_batch = 8;
  return decided;
}

TEST(PlanDigestTest, SaysTheSameOfEqualDecisionsOnly) {
  struct Change {
    const char* what;
    std::function<void(Decided&)> apply;
  };
  const std::vector<Change> changes = {
      {"data degree", [](Decided& d) { d.plan.groups.data = 2; }},
      {"shard degree", [](Decided& d) { d.plan.groups.shard = 2; }},
      {"order of ranks", [](Decided& d) { std::swap(d.mesh.order.front(), d.mesh.order.back()); }},
      {"pipeline degree", [](Decided& d) { d.plan.groups.pipeline = 2; }},
      {"shard level", [](Decided& d) { d.plan.shard = program::ShardLevel::kGradients; }},
      {"virtual shards", [](Decided& d) { d.plan.virtual_shards = 2; }},
      {"global batch", [](Decided& d) { d.plan.global_batch = 16; }},
      {"evaluate batch", [](Decided& d) { d.plan.evaluate_batch = 4; }},
      {"micro order", [](Decided& d) { d.plan.micro_order = program::MicroOrder::kLayerFirst; }},
      {"stages of layers", [](Decided& d) { d.plan.stage_of_layer = {0}; }},
      {"prefetch", [](Decided& d) { d.plan.prefetch_bytes = 64; }},
      {"parameters' place", [](Decided& d) { d.plan.places.parameters.ssd = 1; }},
      {"gradients' place", [](Decided& d) { d.plan.places.gradients.host = 0.5; }},
      {"optimizer's place", [](Decided& d) { d.plan.places.optimizer.host = 0.5; }},
      {"activations' place", [](Decided& d) { d.plan.places.activations.ssd = 0.1; }},
      {"resident layers", [](Decided& d) { d.plan.streaming.resident = 2; }},
      {"moved layers", [](Decided& d) { d.plan.streaming.moved = 2; }},
      {"device limit", [](Decided& d) { d.plan.device_limit = 4096; }},
      {"range bytes", [](Decided& d) { d.plan.range_bytes = 4096; }},
      {"update policy", [](Decided& d) { d.plan.update = program::UpdatePolicy::kSpooled; }},
      {"slabs", [](Decided& d) { d.plan.slabs = 9; }},
      {"clip", [](Decided& d) { d.plan.gradient_clip = 1; }},
      {"tier", [](Decided& d) { d.plan.tier = program::Tier::kDevice; }},
      {"micro-batch", [](Decided& d) { d.graph.micro_batch = 2; }},
      {"sequence", [](Decided& d) { d.graph.sequence = 2; }},
      {"a layer more", [](Decided& d) { d.graph.layers.push_back(d.graph.layers[0]); }},
      {"layer's template", [](Decided& d) { d.graph.layers[0].templates.backward = 0; }},
      {"layer's set", [](Decided& d) { d.graph.layers[0].sets = {}; }},
      {"op", [](Decided& d) { d.graph.templates[0].ops.emplace_back(); }},
      {"formal", [](Decided& d) { d.graph.templates[0].formals[0].bytes = 128; }},
      {"shape",
       [](Decided& d) {
         d.graph.sets[0].tensors[0].shape = {2, 8};
       }},
      {"initial value", [](Decided& d) { d.graph.sets[0].tensors[0].initializer.value = 1; }},
      {"padding", [](Decided& d) { d.graph.sets[0].elements = 32; }},
      {"frozen", [](Decided& d) { d.graph.sets[0].trainable = false; }},
      {"constant", [](Decided& d) { d.graph.constants[0].bytes = 64; }},
      {"update", [](Decided& d) { d.decay = 0.2; }},
  };
  const std::string digest = DigestOf(Example());
  EXPECT_EQ(DigestOf(Example()), digest);
  EXPECT_NE(DigestOf(Example(), "another build"), digest);
  for (const Change& change : changes) {
    Decided changed = Example();
    change.apply(changed);
    EXPECT_NE(DigestOf(changed), digest) << change.what;
  }
}

TEST(PlanDigestTest, OfAModelAloneFollowsFromItsGraphAndTheBuild) {
  LayerGraph graph = Example().graph;
  const std::string digest = PlanDigest(graph, "build");
  EXPECT_EQ(PlanDigest(Example().graph, "build"), digest);
  EXPECT_NE(PlanDigest(graph, "another build"), digest);
  graph.logits_bytes = 4;
  EXPECT_NE(PlanDigest(graph, "build"), digest);
}

}  // namespace
}  // namespace strata::worker
