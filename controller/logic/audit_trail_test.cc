#include "controller/logic/audit_trail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "controller/logic/testing.h"

namespace strata::controller {
namespace {

using ::testing::ElementsAre;

v1::AuditRecord Of(const std::string& identity, const std::string& outcome = "OK") {
  v1::AuditRecord record;
  record.set_identity(identity);
  record.set_outcome(outcome);
  record.set_sequence(77);  // is not the caller's to say
  return record;
}

std::vector<int64_t> SequencesOf(const AuditTrail& trail) {
  std::vector<int64_t> sequences;
  trail.records().ForEachAfter(0, [&](const v1::AuditRecord& record) {
    sequences.push_back(record.sequence());
    return true;
  });
  return sequences;
}

TEST(AuditTrail, CountsWithoutGapsAndKeepsTheNewest) {
  AuditTrail trail;
  Effects effects;
  for (int i = 0; i < 5; ++i) trail.Add(Of("users/a"), 3, effects);
  EXPECT_THAT(SequencesOf(trail), ElementsAre(3, 4, 5));
  ASSERT_EQ(effects.audited.size(), 5u);
  EXPECT_EQ(effects.audited[4].sequence(), 5);
  ASSERT_EQ(effects.writes.size(), 7u);  // five, and two that went
  EXPECT_EQ(effects.writes[0].key, "00000000000000000001");
  EXPECT_TRUE(effects.writes[6].erase);
  EXPECT_EQ(effects.writes[6].key, "00000000000000000002");
}

TEST(AuditTrail, RefusalsPushOutRefusalsAlone) {
  AuditTrail trail;
  Effects effects;
  trail.Add(Of("users/ada"), 3, effects);
  for (int i = 0; i < 9; ++i) trail.Add(Of("", "UNAUTHENTICATED"), 3, effects);
  EXPECT_THAT(SequencesOf(trail), ElementsAre(1, 8, 9, 10));
  AuditTrail restarted;
  for (const Write& write : effects.writes) {
    const bool kept = trail.records().Find(std::stoll(write.key)) != nullptr;
    if (!write.erase && kept) restarted.Restore(write);
  }
  restarted.Add(Of("users/eve", "PERMISSION_DENIED"), 3, effects);
  EXPECT_THAT(SequencesOf(restarted), ElementsAre(1, 9, 10, 11));
}

TEST(AuditTrail, GoesOnAfterARestart) {
  AuditTrail first;
  Effects effects;
  for (int i = 0; i < 12; ++i) first.Add(Of("users/a"), 100, effects);
  AuditTrail second;
  for (const Write& write : effects.writes) EXPECT_TRUE(second.Restore(write));
  second.Add(Of("users/b"), 2, effects);
  EXPECT_THAT(SequencesOf(second), ElementsAre(12, 13));
  EXPECT_EQ(second.records().Find(12)->identity(), "users/a");
  EXPECT_FALSE(second.Restore({AuditTrail::kTable, "7", effects.writes[0].value}));
}

TEST(AuditTrail, TheCoreRemembersItWithItsTime) {
  testing::Harness h;
  Effects effects;
  h.Pass(1);
  h.core->Audit(Of("users/a"), 10, effects);
  ASSERT_EQ(h.core->audit().size(), 1u);
  EXPECT_GT(h.core->audit().Find(1)->time().seconds(), 0);
}

}  // namespace
}  // namespace strata::controller
