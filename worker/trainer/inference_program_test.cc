#include "worker/trainer/inference_program.h"

#include <gtest/gtest.h>

#include <string>

#include "model/model_spec_proto.h"
#include "planner/fit/fit_testing.h"

namespace strata::worker {
namespace {

constexpr int64_t kPrefillChunk = 64, kTokens = 300;  // as generate reads a prompt

TEST(CompileInference, NeedsTheArenasThatTheMemoryReportSays) {
  for (const char* name : {"gpt2", "llama-3.2-1b", "qwen3-0.6b", "gemma-3-1b"}) {
    for (const int ranks : {1, 2}) {
      planner::FitRequest request =
          planner::RequestOf(name, planner::Method::kInference, {}, kTokens);
      request.threads = 2;
      request.job.mutable_parallel()->set_pipeline(ranks);
      const auto memory = planner::ReadMemoryOfJob(request);
      ASSERT_TRUE(memory.ok()) << memory.status();
      v1::JobSpec job = request.job;
      *job.mutable_model() = model::ToProto(request.model.spec);
      v1::TrainerTask task;
      task.set_kind(v1::TrainerTask::KIND_GENERATE);
      task.set_ranks(ranks);
      task.set_threads(2);
      task.mutable_request()->set_prompt("Once");
      task.mutable_request()->set_tokens(kTokens - 4);
      task.mutable_request()->set_precision(v1::TrainSpec::PRECISION_BF16);
      const auto compiled = CompileInference(job, kPrefillChunk, task, "build");
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      for (int rank = 0; rank < ranks; ++rank) {
        for (int t = 0; t < program::kTierCount; ++t) {
          const auto tier = static_cast<size_t>(t);
          EXPECT_EQ(compiled->sets()[static_cast<size_t>(rank)]->arena_bytes[tier],
                    memory->of_rank(rank).tiers[tier].arena_bytes)
              << name << ", rank " << rank << " of " << ranks << ", tier " << t;
        }
      }
    }
  }
}

}  // namespace
}  // namespace strata::worker
