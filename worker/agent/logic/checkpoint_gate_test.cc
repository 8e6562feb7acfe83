#include "worker/agent/logic/checkpoint_gate.h"

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

v1::CommitCheckpoint Of(int64_t step) {
  v1::CommitCheckpoint commit;
  commit.set_step(step);
  return commit;
}

TEST(CheckpointGateTest, NothingIsCommittedBeforeItsStepRecordsArePublished) {
  CheckpointGate gate(0);
  gate.Complete(Of(4));
  EXPECT_FALSE(gate.Next().has_value());
  gate.Published(4);
  EXPECT_EQ(gate.Next()->step(), 4);
  EXPECT_FALSE(gate.Next().has_value());
}

// Rank 0 commits in order: without the older one it would wait for ever.
TEST(CheckpointGateTest, AnOlderCheckpointAfterANewerOneIsGivenToo) {
  CheckpointGate gate(20);
  gate.Complete(Of(20));
  EXPECT_EQ(gate.Next()->step(), 20);
  gate.Complete(Of(15));
  EXPECT_EQ(gate.Next()->step(), 15);
}

}  // namespace
}  // namespace strata::worker
