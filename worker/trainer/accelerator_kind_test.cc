#include "worker/trainer/accelerator_kind.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

absl::Status Check(const std::string& asked, const std::string& kind, bool controlled = false) {
  v1::TrainerTask task;
  task.set_kind(v1::TrainerTask::KIND_TRAIN);
  task.set_rank(3);
  task.mutable_job()->mutable_resources()->set_device(asked);
  if (controlled) task.mutable_controlled();
  NamedAccelerator made;
  made.name = "NVIDIA H200";
  made.kind = kind;
  return CheckKind(task, made);
}

TEST(CheckKind, ADeviceIsOfTheKindThatTheJobNames) {
  EXPECT_TRUE(Check("h200", "h200").ok());
  EXPECT_TRUE(Check("gpu", "h200").ok());
  EXPECT_TRUE(Check("h100", "").ok());                           // the stand-in is any
  EXPECT_TRUE(Check("h100", "h200", /*controlled=*/true).ok());  // the agent knows better
  EXPECT_THAT(std::string(Check("h100", "h200").message()),
              HasSubstr("resources.device: h100: the device of rank 3 is of kind h200 (NVIDIA "
                        "H200) — use h200, or gpu"));
}

}  // namespace
}  // namespace strata::worker
