// Snapshots: what a reader holds stays as it was, and is shared where nothing changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/logic/job_entry.h"
#include "controller/logic/shared_table.h"
#include "controller/logic/testing.h"

namespace strata::controller {
namespace {

using testing::Harness;

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
    const SchedulerFigures figures = h.core->scheduler_figures();
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
