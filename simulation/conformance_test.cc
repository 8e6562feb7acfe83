// The agents of controller/simulator are imitations, so that clusters of thousands of nodes can be
// simulated for weeks; the ones here are worker/agent's own logic. In each of these scenes both
// hear what the same controller's logic says: what the imitation hears and says, in its order, must
// be something that real agents hear and say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "controller/simulator/world.h"
#include "simulation/cluster.h"

namespace strata::simulation {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::IsEmpty;

constexpr int kSeeds = 60;  // of real agents: who is told of a loss first is chance

// What each of two nodes hears (<) and says (>) of a job's ranks, by kinds, and once where it is
// repeated. Steps come at any time between the rest, as do signs of life and logs.
class Ear {
 public:
  template <typename Options>
  void Listen(Options& options) {
    options.on_said = [this](const std::string& node, const v1::AgentMessage& message) {
      Note(node, " >", message);
    };
    options.on_heard = [this](const std::string& node, const v1::ControllerMessage& message) {
      const auto& own = message.prepare().own();
      if (std::find(own.begin(), own.end(), 0) != own.end() && first_.empty()) first_ = node;
      Note(node, " <", message);
    };
  }
  // Of the node that had rank 0 first, and of the other one.
  std::string Talk() const {
    std::string other;
    for (const auto& [node, talk] : talks_) {
      if (node != first_) other = talk;
    }
    return absl::StrCat("first:", talks_.at(first_), "\nother:", other, "\n");
  }
  bool told_steps() const { return told_steps_; }

 private:
  template <typename Message>
  void Note(const std::string& node, const char* direction, const Message& message) {
    const auto* field = Message::descriptor()->FindFieldByNumber(message.message_case());
    const std::string kind = field->name();
    told_steps_ |= kind == "progress";
    if (kind == "progress" || kind == "heartbeat" || kind == "log" || kind == "timing") return;
    const std::string word = absl::StrCat(direction, kind);
    std::string& last = last_[node];
    if (last != word) talks_[node] += word;
    last = word;
  }

  std::string first_;
  bool told_steps_ = false;
  std::map<std::string, std::string> talks_, last_;  // by node
};

// A job of two ranks on two nodes. `steps`: of the job, which has its only checkpoint at its end.
struct Scene {
  const char* name;
  int64_t steps;
  std::function<void(Cluster&)> real;               // when its ranks train
  std::function<void(simulator::World&)> imitated;  // the same
};
void PrintTo(const Scene& scene, std::ostream* out) { *out << scene.name; }

constexpr int64_t kLong = 1'000'000;
constexpr double kRealTrains = 30, kRealEnd = 200;  // seconds

std::string RealTalk(const Scene& scene, uint64_t seed) {
  Ear ear;
  Options options = {.seed = seed, .nodes = 2};
  ear.Listen(options);
  Cluster cluster(options);
  v1::CreateJobRequest request;
  v1::Job& job = *request.mutable_job();
  job.set_name("jobs/a");
  job.set_directory("/d/a");
  v1::JobSpec& spec = *job.mutable_spec();
  spec.mutable_model()->set_layers(1);
  spec.mutable_train()->set_steps(scene.steps);
  spec.mutable_checkpoint()->set_every_steps(scene.steps);
  spec.mutable_resources()->set_device("cpu");
  spec.mutable_resources()->set_ranks(2);
  spec.mutable_restart()->set_max_without_progress(3);
  spec.mutable_parallel()->set_tensor(1);
  spec.mutable_parallel()->set_data(2);
  spec.mutable_parallel()->set_virtual_shards(2);
  cluster.events.At(3, [&] {
    cluster.controller.Ask(
        [request](controller::Core& core, controller::Effects& effects) {
          return core.CreateJob(request, effects).status();
        },
        [](const absl::Status& created) { EXPECT_TRUE(created.ok()) << created; });
  });
  cluster.events.At(kRealTrains, [&] { scene.real(cluster); });
  while (cluster.events.Now() < kRealEnd && cluster.oracle.violation().empty()) {
    cluster.events.RunNext();
  }
  EXPECT_THAT(cluster.oracle.violation(), IsEmpty());
  EXPECT_TRUE(ear.told_steps());
  return ear.Talk();
}

constexpr double kImitationTrains = 200, kImitationEnd = 3000;  // seconds

std::string ImitatedTalk(const Scene& scene) {
  Ear ear;
  simulator::Options options;
  ear.Listen(options);
  options.cluster = simulator::RegularCluster({.nodes = 2, .devices = 1, .device = "cpu"});
  options.days = kImitationEnd / 86'400;
  options.failure_rate = 0;
  simulator::SimJob& job = options.jobs.emplace_back();
  job.name = "a";
  job.submit_seconds = 3;
  job.data = 2;
  job.device = "cpu";
  job.steps = scene.steps;
  job.seconds_per_step = 1;
  job.checkpoint_interval = static_cast<double>(scene.steps);
  simulator::World world(options);
  world.events.At(kImitationTrains, [&] { scene.imitated(world); });
  world.Run(nullptr);
  EXPECT_THAT(world.invariants.violation(), IsEmpty());
  return ear.Talk();
}

class Conformance : public ::testing::TestWithParam<Scene> {};

TEST_P(Conformance, TheImitationSaysWhatRealAgentsSay) {
  std::set<std::string> real;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) real.insert(RealTalk(GetParam(), seed));
  const std::string imitated = ImitatedTalk(GetParam());
  ASSERT_THAT(imitated, AnyOf(::testing::HasSubstr(">ended"), ::testing::HasSubstr(">running")));
  EXPECT_THAT(real, Contains(imitated));
}

// It is no test that cannot fail: of other scenes the talk is another one.
TEST(Conformances, ScenesAreToldApart) {
  const Scene finished = {"", 20, [](Cluster&) {}, [](simulator::World&) {}};
  const Scene goes_on = {"", kLong, finished.real, finished.imitated};
  EXPECT_NE(ImitatedTalk(finished), ImitatedTalk(goes_on));
  EXPECT_NE(RealTalk(goes_on, 1), RealTalk(finished, 1));
}

INSTANTIATE_TEST_SUITE_P(
    All, Conformance,
    ::testing::Values(
        // Joins, trains, commits its last checkpoint, ends.
        Scene{"FinishesItsSteps", 20, [](Cluster&) {}, [](simulator::World&) {}},
        Scene{"IsCancelled", kLong,
              [](Cluster& cluster) {
                cluster.controller.Ask(
                    [](controller::Core& core, controller::Effects& effects) {
                      v1::CancelJobRequest request;
                      request.set_name("jobs/a");
                      return core.CancelJob(request, effects).status();
                    },
                    [](const absl::Status&) {});
              },
              [](simulator::World& world) { world.host.Cancel("jobs/a"); }},
        Scene{"LosesANode", kLong,
              [](Cluster& cluster) {
                cluster.oracle.OnHarm("nodes/n1", kRealTrains + 40);
                cluster.nodes()[1]->Reboot(40);
              },
              [](simulator::World& world) {
                simulator::SimNode& node = world.fleet.nodes()[1];
                world.fleet.PowerOff(node);
                world.events.After(60, [&world, &node] { world.fleet.Boot(node); });
              }},
        Scene{"LosesItsController", kLong, [](Cluster& cluster) { cluster.controller.Kill(3); },
              [](simulator::World& world) { world.host.Kill(3); }}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace strata::simulation
