#include "planner/plan_family.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace strata::planner {
namespace {

using ::testing::HasSubstr;

v1::JobSpec Job(const std::string& more = "") {
  v1::JobSpec job;
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
      R"pb(
            model {
              family: FAMILY_LLAMA
              layers: 6
              hidden: 384
              heads: 6
              kv_heads: 2
              ffn: 1024
              vocab: 256
            }
            train { sequence: 256 global_batch: 32 micro_batch: 4 steps: 10 }
            parallel { data: 4 tensor: 2 shard: SHARD_ZERO1 }
      )pb" +
          more,
      &job));
  return job;
}

FamilyKey Key(const v1::JobSpec& job) { return FamilyOf(job, job.model(), "cpu"); }

TEST(PlanFamily, IsNamedByWorkloadAndLayout) {
  const FamilyKey key = Key(Job());
  EXPECT_EQ(key.workload,
            "llama 6 x 384, heads 6/2 x 64, ffn 1024, vocab 256, sequence 256, full f32, cpu");
  EXPECT_EQ(key.layout, "tensor 2, data 4, zero1");
}

TEST(PlanFamily, DefaultsAreWhatTheyStandFor) {
  const v1::JobSpec job = Job(R"pb(train { method: METHOD_FULL precision: PRECISION_F32 }
                                   model { head_size: 64 }
                                   parallel {
                                     context: 1
                                     pipeline: 1
                                     virtual_stages: 1
                                     shard_group: 4
                                     recompute { mode: MODE_NONE }
                                   }
                                   memory { place { optimizer { device: 1 } } })pb");
  EXPECT_EQ(Key(job).workload, Key(Job()).workload);
  EXPECT_EQ(Key(job).layout, Key(Job()).layout);
}

TEST(PlanFamily, BatchesAndStepsAreNotPartOfIt) {
  const FamilyKey key = Key(
      Job("train { global_batch: 64 micro_batch: 8 steps: 20 } parallel { virtual_shards: 8 }"));
  EXPECT_EQ(key.workload, Key(Job()).workload);
  EXPECT_EQ(key.layout, Key(Job()).layout);
}

TEST(PlanFamily, WhatChangesAStepsWorkMakesAnother) {
  for (const char* more :
       {"model { layers: 7 }", "model { ffn: 512 }", "train { sequence: 512 }",
        "train { precision: PRECISION_BF16 }", "train { method: METHOD_LORA lora { rank: 8 } }"}) {
    EXPECT_NE(Key(Job(more)).workload, Key(Job()).workload) << more;
    EXPECT_EQ(Key(Job(more)).layout, Key(Job()).layout) << more;
  }
  EXPECT_NE(FamilyOf(Job(), Job().model(), "h100").workload, Key(Job()).workload);
  for (const char* more :
       {"parallel { tensor: 4 }", "parallel { shard: SHARD_ZERO3 }", "parallel { shard_group: 2 }",
        "parallel { recompute { mode: MODE_FULL } }",
        "parallel { recompute { save: 'attention' layers { first: 0 last: 2 } } }",
        "parallel { pipeline: 2 }", "parallel { context: 2 }",
        "parallel { update_policy: UPDATE_POLICY_SPOOLED }",
        "memory { place { optimizer { host: 0.5 device: 0.5 } } }"}) {
    EXPECT_EQ(Key(Job(more)).workload, Key(Job()).workload) << more;
    EXPECT_NE(Key(Job(more)).layout, Key(Job()).layout) << more;
  }
  const v1::JobSpec deep = Job("parallel { pipeline: 2 }");
  const v1::JobSpec zero =
      Job("parallel { pipeline: 2 pipeline_schedule: PIPELINE_SCHEDULE_ZERO_BUBBLE }");
  EXPECT_NE(Key(deep).layout, Key(zero).layout);
}

void Learn(const std::string& workload, const std::string& layout, double ratio,
           LearnedFamilies& learned) {
  v1::PlanFamily& family = *learned.Add();
  family.set_workload(workload);
  family.set_layout(layout);
  family.set_ratio(ratio);
  family.set_steps(16);
}

TEST(Correction, IsTheLayoutsOwnElseTheMedianOfTheWorkloads) {
  const FamilyKey key = Key(Job());
  LearnedFamilies learned;
  EXPECT_FALSE(CorrectionOf(key, learned).has_value());
  Learn("another", key.layout, 9, learned);
  EXPECT_FALSE(CorrectionOf(key, learned).has_value());
  Learn(key.workload, "data 8", 2, learned);
  Learn(key.workload, "data 4", 0.5, learned);
  auto correction = CorrectionOf(key, learned);
  ASSERT_TRUE(correction.has_value());
  EXPECT_DOUBLE_EQ(correction->ratio, 1);
  EXPECT_EQ(correction->steps, 32);
  EXPECT_FALSE(correction->of_layout);
  Learn(key.workload, "data 2", 1.25, learned);
  EXPECT_DOUBLE_EQ(CorrectionOf(key, learned)->ratio, 1.25);
  EXPECT_THAT(ToText(*CorrectionOf(key, learned)), HasSubstr("other layouts"));
  Learn(key.workload, key.layout, 1.5, learned);
  correction = CorrectionOf(key, learned);
  EXPECT_DOUBLE_EQ(correction->ratio, 1.5);
  EXPECT_TRUE(correction->of_layout);
  EXPECT_EQ(ToText(*correction), "1.5 × the predicted time, as 16 steps of this layout took");
}

}  // namespace
}  // namespace strata::planner
