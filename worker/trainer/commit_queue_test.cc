#include "worker/trainer/commit_queue.h"

#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace strata::worker {
namespace {

checkpoint::CheckpointInfo Info(int64_t step) {
  checkpoint::CheckpointInfo info;
  info.step = step;
  return info;
}

absl::StatusOr<checkpoint::Published> Succeed(const checkpoint::CommitRequest&) {
  return checkpoint::Published{"folder", absl::OkStatus()};
}

v1::CommitCheckpoint Word(int64_t step) {
  v1::CommitCheckpoint command;
  command.set_step(step);
  return command;
}

TEST(CommitQueueTest, CommitsInOrderOnceTheWordIsThere) {
  std::vector<int64_t> steps;
  CommitQueue queue(
      [&](const checkpoint::CommitRequest& request) -> absl::StatusOr<checkpoint::Published> {
        return checkpoint::Published{std::to_string(request.info.step), absl::OkStatus()};
      },
      [&](const v1::CheckpointCommitted& committed, const absl::Status&) {
        steps.push_back(committed.step());
      });
  ASSERT_TRUE(queue.Announce(Info(1), 0).ok());
  ASSERT_TRUE(queue.Announce(Info(2), 0).ok());
  queue.Complete(Word(2));
  queue.Complete(Word(1));
  queue.Complete(Word(1));  // again: nothing to do
  ASSERT_TRUE(queue.WaitForAll().ok());
  EXPECT_EQ(steps, (std::vector<int64_t>{1, 2}));
}

TEST(CommitQueueTest, AThirdCheckpointWaitsForTheFirst) {
  CommitQueue queue(Succeed, [](const v1::CheckpointCommitted&, const absl::Status&) {});
  ASSERT_TRUE(queue.Announce(Info(1), 0).ok());
  ASSERT_TRUE(queue.Announce(Info(2), 0).ok());
  std::thread agent([&] { queue.Complete(Word(1)); });
  EXPECT_TRUE(queue.Announce(Info(3), 0).ok());
  agent.join();
}

TEST(CommitQueueTest, AFailureReachesTheTrainingLoop) {
  CommitQueue queue(
      [](const checkpoint::CommitRequest&) -> absl::StatusOr<checkpoint::Published> {
        return absl::ResourceExhaustedError("no space left");
      },
      [](const v1::CheckpointCommitted&, const absl::Status&) { ADD_FAILURE(); });
  ASSERT_TRUE(queue.Announce(Info(1), 0).ok());
  queue.Complete(Word(1));
  EXPECT_EQ(queue.WaitForAll().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(queue.Announce(Info(2), 0).code(), absl::StatusCode::kResourceExhausted);
}

TEST(CommitQueueTest, AFragmentThatIsNoneIsAFailure) {
  CommitQueue queue(Succeed,
                    [](const v1::CheckpointCommitted&, const absl::Status&) { ADD_FAILURE(); });
  ASSERT_TRUE(queue.Announce(Info(1), 0).ok());
  v1::CommitCheckpoint word = Word(1);
  word.add_fragments("{");
  queue.Complete(word);
  EXPECT_FALSE(queue.WaitForAll().ok());
}

TEST(CommitQueueTest, CancelReleasesWhoeverWaits) {
  CommitQueue queue(Succeed, [](const v1::CheckpointCommitted&, const absl::Status&) {});
  ASSERT_TRUE(queue.Announce(Info(1), 0).ok());
  std::thread canceller([&] { queue.Cancel(); });
  EXPECT_EQ(queue.WaitForAll().code(), absl::StatusCode::kCancelled);
  canceller.join();
}

}  // namespace
}  // namespace strata::worker
