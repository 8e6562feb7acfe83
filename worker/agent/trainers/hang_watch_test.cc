#include "worker/agent/logic/hang_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"
#include "worker/agent/machine/process_stat.h"
#include "worker/agent/trainers/trainer_process.h"
#include "worker/shared/progress_writer.h"

namespace strata::worker {
namespace {

// Whether a trainer with this version of the progress file is judged before `seconds` have passed
// without a change. This process plays the trainer.
bool Judged(uint32_t version, double seconds) {
  common::ManualClock clock;
  const std::string path = testing::TempDir() + "/progress";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const auto writer = ProgressWriter::Create(file, {.label_capacity = 1, .ring_bytes = 64}, &clock);
  EXPECT_TRUE(writer.ok());
  EXPECT_EQ(pwrite(file, &version, sizeof(version), offsetof(ProgressHeader, version)), 4);
  close(file);
  auto own = TrainerProcess::Adopt(getpid(), ReadProcessStat(getpid())->start_time, path,
                                   /*poll=*/nullptr);
  EXPECT_TRUE(own.ok());
  std::vector<std::unique_ptr<Trainer>> trainers;
  trainers.push_back(*std::move(own));
  TrainerGroup group({0}, std::move(trainers));
  HangWatch watch(1, HangLimits(), &clock);
  bool judged = false;
  for (double at = 0; at < seconds && !judged; at += 0.9) {
    judged = watch.Look(group, /*connected_since=*/0).has_value();
    clock.Advance(0.9);
  }
  group.LetGo();  // not to be ended: it is this process
  return judged;
}

TEST(HangWatchTest, ATrainerWhoseProgressFileCannotBeReadIsNotJudged) {
  EXPECT_TRUE(Judged(kProgressVersion, 700));
  EXPECT_FALSE(Judged(kProgressVersion + 1, 1500));
  EXPECT_FALSE(Judged(kProgressVersion - 1, 1500));
}

}  // namespace
}  // namespace strata::worker
