#include "worker/trainer/job_difference.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

v1::JobSpec Job() {
  v1::JobSpec job;
  job.set_name("a");
  job.mutable_model()->set_hidden(64);
  job.mutable_data()->add_train()->set_path("/text");
  job.mutable_train()->set_steps(10);
  job.mutable_train()->set_seed(1);
  job.mutable_train()->mutable_optimizer()->set_learning_rate(1e-3);
  job.mutable_train()->mutable_optimizer()->set_beta1(0.9);
  return job;
}

TEST(JobDifferenceTest, LayoutStepsAndNamesMayChange) {
  v1::JobSpec other = Job();
  other.set_name("b");
  other.mutable_train()->set_steps(20);
  other.mutable_parallel()->set_data(4);
  other.mutable_parallel()->set_shard(v1::ParallelSpec::SHARD_ZERO1);
  other.mutable_checkpoint()->set_keep(7);
  const JobDifference difference = CompareJobs(Job(), other, DataFilesBy::kPath);
  EXPECT_THAT(difference.refused, IsEmpty());
  EXPECT_THAT(difference.told, IsEmpty());
}

TEST(JobDifferenceTest, AnotherModelSeedOrDataIsRefusedByName) {
  v1::JobSpec other = Job();
  other.mutable_model()->set_hidden(128);
  other.mutable_data()->mutable_train(0)->set_path("/other");
  other.mutable_data()->set_packing(true);
  other.mutable_train()->set_seed(2);
  other.mutable_train()->mutable_optimizer()->set_beta1(0.8);
  EXPECT_THAT(CompareJobs(Job(), other, DataFilesBy::kPath).refused,
              ElementsAre("model.hidden: 64, the checkpoint's 128",
                          "data.train[0].path: \"/text\", the checkpoint's \"/other\"",
                          "data.packing: absent, the checkpoint's true",
                          "train.seed: 1, the checkpoint's 2",
                          "train.optimizer.beta1: 0.9, the checkpoint's 0.8"));
}

TEST(JobDifferenceTest, PathsOfDataFilesAreNotComparedWhereTheirContentIs) {
  v1::JobSpec other = Job();
  other.mutable_data()->mutable_train(0)->set_path("/other");
  other.mutable_data()->mutable_train(0)->mutable_source()->set_path("/other.jsonl");
  const JobDifference difference = CompareJobs(Job(), other, DataFilesBy::kContent);
  EXPECT_THAT(difference.refused, IsEmpty());
  EXPECT_THAT(difference.told, IsEmpty());
}

TEST(JobDifferenceTest, AFileMoreIsRefused) {
  v1::JobSpec other = Job();
  other.mutable_data()->add_train()->set_path("/more");
  EXPECT_THAT(CompareJobs(Job(), other, DataFilesBy::kPath).refused,
              ElementsAre("data.train: 1 entries, the checkpoint's 2 entries"));
}

TEST(JobDifferenceTest, TypesOfNumbersMayChangeAndAreTold) {
  v1::JobSpec job = Job(), other = Job();
  job.mutable_train()->set_precision(v1::TrainSpec::PRECISION_BF16);
  other.mutable_train()->set_precision(v1::TrainSpec::PRECISION_F32);
  job.mutable_train()->mutable_optimizer()->set_state(v1::OptimizerSpec::STATE_8BIT);
  job.mutable_train()->mutable_optimizer()->set_name(v1::OptimizerSpec::NAME_SGD);
  const JobDifference difference = CompareJobs(job, other, DataFilesBy::kPath);
  EXPECT_THAT(difference.refused,
              ElementsAre("train.optimizer.name: NAME_SGD, the checkpoint's absent"));
  EXPECT_THAT(difference.told,
              ElementsAre("train.precision: PRECISION_BF16, the checkpoint's PRECISION_F32",
                          "train.optimizer.state: STATE_8BIT, the checkpoint's absent"));
}

TEST(JobDifferenceTest, TheLearningRateMayChangeAndIsTold) {
  v1::JobSpec other = Job();
  other.mutable_train()->mutable_optimizer()->set_learning_rate(2e-3);
  other.mutable_train()->mutable_schedule()->set_warmup_steps(5);
  const JobDifference difference = CompareJobs(Job(), other, DataFilesBy::kPath);
  EXPECT_THAT(difference.refused, IsEmpty());
  EXPECT_THAT(difference.told,
              ElementsAre("train.optimizer.learning_rate: 0.001, the checkpoint's 0.002",
                          "train.schedule.warmup_steps: absent, the checkpoint's 5"));
}

}  // namespace
}  // namespace strata::worker
