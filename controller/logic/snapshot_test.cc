// Snapshots: what a reader holds stays as it was, and is shared where nothing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/logic/explain.h"
#include "controller/logic/job_entry.h"
#include "controller/logic/scheduler_figures.h"
#include "controller/logic/shared_table.h"
#include "controller/logic/testing.h"

namespace strata::controller {
namespace {

using testing::Harness;
using ::testing::HasSubstr;

struct Entry {
  std::string key;
  int value = 0;
};
struct ByKey {
  static const std::string& KeyOf(const Entry& entry) { return entry.key; }
};
using Table = SharedTable<Entry, ByKey>;
using Plain = std::map<std::string, int>;

Plain Contents(const Table& table, const std::string& after = "") {
  Plain found;
  table.ForEachAfter(after, [&](const Entry& entry) {
    EXPECT_TRUE(found.empty() || found.rbegin()->first < entry.key);
    found[entry.key] = entry.value;
    return true;
  });
  return found;
}

TEST(SharedTable, IsAMapWhoseCopiesStayAsTheyWere) {
  std::mt19937_64 random(7);
  Table table;
  Plain plain;
  std::vector<std::pair<Table, Plain>> copies;
  for (int i = 0; i < 6000; ++i) {
    const std::string key = absl::StrCat("k", random() % 2000);
    if (random() % 3 == 0) {
      table.Erase(key);
      plain.erase(key);
    } else {
      table.Set(std::make_shared<const Entry>(Entry{key, i}));
      plain[key] = i;
    }
    EXPECT_EQ(table.Find(key) != nullptr, plain.contains(key));
    if (i % 500 == 0) copies.push_back({table, plain});
  }
  EXPECT_EQ(table.size(), plain.size());
  EXPECT_EQ(Contents(table), plain);
  for (const auto& [then, as_it_was] : copies) EXPECT_EQ(Contents(then), as_it_was);
  const std::string middle = "k1500";
  EXPECT_EQ(Contents(table, middle), Plain(plain.upper_bound(middle), plain.end()));
  Plain before;
  table.ForEachBefore(middle, [&](const Entry& entry) {
    EXPECT_TRUE(before.empty() || before.begin()->first > entry.key);
    before[entry.key] = entry.value;
    return true;
  });
  EXPECT_EQ(before, Plain(plain.begin(), plain.lower_bound(middle)));
}

TEST(SharedTable, EmptyAgainAfterTheLastOneWent) {
  Table table;
  EXPECT_EQ(table.Find("a"), nullptr);
  table.Erase("a");
  table.Set(std::make_shared<const Entry>(Entry{"a", 1}));
  table.Erase("a");
  EXPECT_TRUE(Contents(table).empty());
  table.Set(std::make_shared<const Entry>(Entry{"b", 2}));
  EXPECT_EQ(Contents(table).size(), 1u);
}

TEST(Snapshot, StaysAsItWasWhileTheClusterGoesOn) {
  Harness h;
  h.Join("n0");
  h.Join("n1");
  ASSERT_TRUE(h.Create(Harness::Request("a", 1)).ok());
  const std::shared_ptr<const Snapshot> before = h.core->TakeSnapshot();
  EXPECT_EQ(h.core->TakeSnapshot(), before) << "nothing has changed";
  ASSERT_TRUE(h.Cancel("a").ok());
  ASSERT_TRUE(h.Create(Harness::Request("b", 1)).ok());
  ASSERT_TRUE(h.Drain("n1").ok());
  const std::shared_ptr<const Snapshot> after = h.core->TakeSnapshot();
  EXPECT_EQ(before->jobs.size(), 1u);
  EXPECT_EQ(before->jobs.Find("jobs/a")->state(), v1::Job::STARTING);
  EXPECT_EQ(after->jobs.Find("jobs/a")->state(), v1::Job::CANCELLED);
  EXPECT_EQ(after->jobs.size(), 2u);
  EXPECT_FALSE(ShowNode(*before, *before->nodes.Find("nodes/n1")).drained());
  EXPECT_TRUE(ShowNode(*after, *after->nodes.Find("nodes/n1")).drained());
  EXPECT_LT(before->resource_version, after->resource_version);
}

TEST(Snapshot, SharesWhatHasNotChangedAndHeartbeatsChangeNothingElse) {
  Harness h;
  for (int i = 0; i < 4; ++i) h.Join(absl::StrCat("n", i));
  const auto before = h.core->TakeSnapshot();
  h.Pass(2, {"n0", "n1", "n2", "n3"});
  ASSERT_TRUE(h.Drain("n2").ok());
  const auto after = h.core->TakeSnapshot();
  for (const char* name : {"nodes/n0", "nodes/n1", "nodes/n3"}) {
    EXPECT_EQ(before->nodes.Find(name), after->nodes.Find(name)) << name;
  }
  EXPECT_NE(before->nodes.Find("nodes/n2"), after->nodes.Find("nodes/n2"));
  EXPECT_TRUE(ShowNode(*after, *after->nodes.Find("nodes/n0")).has_last_heartbeat_time());
}

// What takes time in proportion to the nodes must not be made anew for every reader.
TEST(Snapshot, TheMapIsMadeAnewOnlyWhenNodesHaveMoved) {
  Harness h;
  h.Join("n0", {}, 1, {{"rack", "r0"}});
  h.Pass(1, {"n0"});
  const auto before = h.core->TakeSnapshot();
  (void)h.Create(Harness::Request("a", 1));
  h.Pass(1, {"n0"});
  const auto later = h.core->TakeSnapshot();
  ASSERT_NE(later, before);
  EXPECT_EQ(later->map, before->map);
  h.Join("n1", {}, 1, {{"zone", "z0"}, {"rack", "r0"}});
  const auto grown = h.core->TakeSnapshot();
  EXPECT_EQ(grown->map->levels, (std::vector<std::string>{"zone", "rack", "domain"}));
  h.Pass(1, {"n0", "n1"});  // time alone
  EXPECT_EQ(h.core->TakeSnapshot()->buffer, grown->buffer);
}

// Tensor 8 x pipeline 16 x data 128, of a model whose sizes are known.
v1::CreateJobRequest LargeJob(const std::string& name) {
  v1::CreateJobRequest request = Harness::Request(name, 16384);
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.mutable_parallel()->set_tensor(8);
  spec.mutable_parallel()->set_pipeline(16);
  spec.mutable_parallel()->set_data(128);
  spec.mutable_parallel()->set_virtual_shards(128);
  spec.mutable_train()->set_sequence(128);
  spec.mutable_train()->set_global_batch(2048);
  v1::ModelSpec& model = *request.mutable_job()->mutable_model();
  model.set_family(v1::ModelSpec::FAMILY_LLAMA);
  model.set_layers(32);
  model.set_hidden(512);
  model.set_heads(8);
  model.set_ffn(1024);
  model.set_vocab(256);
  model.set_context(128);
  return request;
}

// An explanation needs nothing but a snapshot: the logic goes on while it is made, here to the end
// of what it tells of.
TEST(Snapshot, ALargeJobIsExplainedAsItWasWhileTheLogicGoesOn) {
  constexpr int kNodes = 256;
  Harness h;
  std::vector<std::string> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(absl::StrCat("n", i));
    h.Join(nodes.back(), {}, 64, {{"zone", absl::StrCat("z", i / 32)}});
  }
  h.Pass(2, nodes);
  ASSERT_TRUE(h.Create(LargeJob("large")).ok());
  ASSERT_EQ(h.Job("large").state(), v1::Job::STARTING);
  ASSERT_TRUE(h.Create(Harness::Request("waits", 1)).ok());
  h.Pass(2, nodes);
  const auto before = h.core->TakeSnapshot();
  const auto explain = [&before](const char* name) {
    return Explain(*before, *before->jobs.Find(name));
  };
  const v1::ExplainJobResponse runs = explain("jobs/large"), waits = explain("jobs/waits");
  v1::ExplainJobResponse runs_later, waits_later;
  std::thread reader([&] {
    runs_later = explain("jobs/large");
    waits_later = explain("jobs/waits");
  });
  ASSERT_TRUE(h.Cancel("large").ok());
  ASSERT_TRUE(h.Cancel("waits").ok());
  for (const std::string& node : nodes) ASSERT_TRUE(h.Drain(node).ok());
  h.Pass(1, nodes);
  h.Join("more", {}, 64);
  reader.join();
  EXPECT_EQ(runs_later.SerializeAsString(), runs.SerializeAsString());
  EXPECT_EQ(waits_later.SerializeAsString(), waits.SerializeAsString());
  const std::string lines = absl::StrJoin(runs.lines(), "\n");
  EXPECT_THAT(lines, HasSubstr("numbered tensor, then "));
  EXPECT_THAT(lines, HasSubstr("contiguous order: "));
  EXPECT_THAT(absl::StrJoin(waits.lines(), "\n"), HasSubstr("n0 is used by large."));
  EXPECT_EQ(waits.devices_free(), 0);
  const auto later = h.core->TakeSnapshot();
  EXPECT_THAT(Explain(*later, *later->jobs.Find("jobs/large")).lines(0), HasSubstr("CANCELLED"));
}

TEST(Snapshot, TellsOfTheSchedulerAndOfThePolicyAsOfThen) {
  Harness h;
  h.Join("n0", {}, 2);
  h.Join("n1");
  ASSERT_TRUE(h.Create(Harness::Request("a", 1)).ok());
  const auto before = h.core->TakeSnapshot();
  v1::Policy policy;
  policy.add_projects()->set_name("nlp");
  ASSERT_TRUE(h.ApplyPolicy(policy).ok());
  ASSERT_TRUE(h.Drain("n0").ok());
  const auto after = h.core->TakeSnapshot();
  EXPECT_EQ(FiguresOf(*before).kinds.at("cpu").free, 2);
  EXPECT_EQ(FiguresOf(*before).drained_nodes, 0);
  EXPECT_EQ(FiguresOf(*after).drained_nodes, 1);
  EXPECT_EQ(ShowPolicy(*before).projects_size() + 1, ShowPolicy(*after).projects_size());
  EXPECT_EQ(ShowPolicy(*before).projects(0).active_jobs(), 1);
  EXPECT_EQ(ShowPolicy(*before).projects(0).devices().at("cpu"), 1);
}

// What is shown is what the logic knows, whatever happened: every change finds its way.
TEST(Snapshot, AgreesWithTheLogicAfterAnyHistory) {
  std::mt19937_64 random(11);
  Harness h;
  for (int i = 0; i < 5; ++i) h.Join(absl::StrCat("n", i));
  for (int step = 0; step < 300; ++step) {
    const std::string node = absl::StrCat("n", random() % 5);
    const std::string job = absl::StrCat("j", random() % 20);
    switch (random() % 9) {
      case 0:
        (void)h.Create(Harness::Request(job, static_cast<int>(1 + random() % 3)));
        break;
      case 1:
        (void)h.Cancel(job);
        break;
      case 2:
        (void)h.Drain(node, random() % 2 == 0);
        break;
      case 3:
        h.Join(node);
        break;
      case 4:
        h.EndSession(node);
        break;
      case 5:
        (void)h.DeleteNode(node);
        break;
      case 6:
        (void)h.Delete(job, random() % 2 == 0);
        break;
      case 7:
        (void)(random() % 2 == 0 ? h.Suspend(job) : h.Resume(job));
        break;
      default:
        h.Pass(static_cast<double>(1 + random() % 40), {"n0", "n1", "n2"});
    }
    const auto snapshot = h.core->TakeSnapshot();
    ASSERT_EQ(snapshot->jobs.size(), h.core->Jobs().size());
    for (const v1::JobRecord* record : h.core->Jobs()) {
      const auto found = snapshot->jobs.Find(record->name());
      ASSERT_NE(found, nullptr) << record->name();
      ASSERT_EQ(found->SerializeAsString(), record->SerializeAsString()) << "step " << step;
      ASSERT_NEAR(SecondsOf(ShowJob(*snapshot, *found).run_time()),
                  SecondsOf(h.core->ShowJob(*record).run_time()), 1e-3)
          << "step " << step;
    }
    const SchedulerFigures figures = FiguresOf(*snapshot);
    int64_t free = 0;
    ASSERT_EQ(snapshot->nodes.size(), h.core->Nodes().size()) << "step " << step;
    for (const v1::Node& shown : h.core->Nodes()) {
      free += shown.free();
      const auto found = snapshot->nodes.Find(shown.name());
      ASSERT_NE(found, nullptr) << shown.name();
      ASSERT_EQ(ShowNode(*snapshot, *found).SerializeAsString(), shown.SerializeAsString());
    }
    ASSERT_EQ(free, figures.free_devices) << "step " << step;
  }
}

}  // namespace
}  // namespace strata::controller
