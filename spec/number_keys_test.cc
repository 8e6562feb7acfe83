// Keys that say in which numbers a job trains, and by which optimizer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "spec/good_job.h"
#include "spec/job_file.h"

namespace strata::spec {
namespace {

using strata::v1::OptimizerSpec;
using strata::v1::TrainSpec;
using testing::ContainsRegex;

std::pair<TrainSpec, std::string> Read(std::vector<std::string> settings) {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = std::move(settings);
  const JobFile file = ReadJob(GoodJob(), options, problems);
  return {file.job.train(), problems.ToString()};
}

TEST(NumberKeys, AreReadAndStayAbsentWhereTheyAreF32) {
  const auto [train, told] = Read({"train.precision=bf16", "train.optimizer.master=split",
                                   "train.optimizer.state=8bit", "train.optimizer.gradient=bf16"});
  EXPECT_EQ(told, "");
  EXPECT_EQ(train.precision(), TrainSpec::PRECISION_BF16);
  EXPECT_EQ(train.optimizer().master(), OptimizerSpec::MASTER_SPLIT);
  EXPECT_EQ(train.optimizer().state(), OptimizerSpec::STATE_8BIT);
  EXPECT_EQ(train.optimizer().gradient(), OptimizerSpec::GRADIENT_BF16);
  const OptimizerSpec plain = Read({}).first.optimizer();
  EXPECT_FALSE(plain.has_master() || plain.has_state() || plain.has_gradient() ||
               plain.has_momentum());
  EXPECT_EQ(Read({"train.precision=f16"}).second, "");
}

TEST(NumberKeys, SgdHasItsMomentum) {
  const auto [train, told] = Read({"train.optimizer={name: sgd, learning_rate: 0.1, state: bf16}"});
  EXPECT_EQ(told, "");
  EXPECT_EQ(train.optimizer().momentum(), 0.9);
}

TEST(NumberKeys, ThatDoNotGoTogetherAreRefusedWithTheReason) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"train.optimizer.master=split"},
       R"(train\.optimizer\.master: a master of f32 weights.*use train\.precision: bf16)"},
      {{"train.precision=f16", "train.optimizer.master=split"},
       R"(train\.optimizer\.master: split, with f16.*use master: f32)"},
      {{"train.optimizer.momentum=0.8"}, R"(train\.optimizer\.momentum: a rate of sgd.*name: sgd)"},
      {{"train.optimizer={name: sgd, beta2: 0.9}"},
       R"(train\.optimizer\.beta2: a rate of adamw.*name: adamw)"},
      {{"train.optimizer={name: sgd, momentum: 1}"}, R"(train\.optimizer\.momentum)"},
      {{"train.optimizer.state=4bit"}, R"(train\.optimizer\.state)"},
  };
  for (const auto& [settings, expected] : cases) {
    EXPECT_THAT(Read(settings).second, ContainsRegex(expected));
  }
}

}  // namespace
}  // namespace strata::spec
