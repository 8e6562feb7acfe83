// What is said of layouts: which cannot be, and what could be instead.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "spec/good_job.h"
#include "spec/job_file.h"
#include "spec/validate.h"

namespace strata::spec {
namespace {

using testing::HasSubstr;

std::string ToldOf(std::vector<std::string> settings) {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = std::move(settings);
  ReadJob(GoodJob(), options, problems);
  return problems.ToString();
}

TEST(Layouts, ThatCannotBeAreInfeasibleNotInvalid) {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = {"parallel.tensor=3", "resources.ranks=3"};
  ReadJob(GoodJob(), options, problems);
  EXPECT_EQ(problems.ToStatus().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(problems.ToString(),
              HasSubstr("tensor 3 does not divide the model's heads 4 and kv_heads 2 and ffn 128"));
  problems.Add({Position{}, "x", "bad", ""});
  EXPECT_EQ(problems.ToStatus().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Layouts, ThatCannotBeAreToldAsSuchBeforeWhatCannotBeTrainedYet) {
  const struct {
    std::string parallel, path, says;
  } cases[] = {
      {"{data: 3}", "parallel.data", "8 is not divisible by 3"},
      {"{data: 4, virtual_shards: 6}", "parallel.virtual_shards", "is not divisible by"},
      {"{data: 4, shard: zero3, shard_group: 3}", "parallel.shard_group", "is not divisible by"},
      {"{data: 1, shard_group: 1}", "parallel.shard_group", "without shards"},
      {"{recompute: {save: [], layers: 2-9}}", "parallel.recompute.layers", "2-9"},
      {"{recompute: {save: [no_such_value]}}", "parallel.recompute.save[0]", "no_such_value"},
      {"{pipeline: 5}", "parallel.pipeline", "more than the model's layers (4)"},
      {"{pipeline: 2, pipeline_schedule: interleaved, virtual_stages: 3}", "parallel.pipeline",
       "layers"},
      {"{pipeline: 2, pipeline_schedule: zbv, virtual_stages: 1}", "parallel.virtual_stages",
       "zbv has 2"},
      {"{pipeline: 2, stages: [1, 2]}", "parallel.stages", "3 layers in all, the model has 4"},
      {"{pipeline: 2, stages: [1, 2, 1]}", "parallel.stages", "3 stages are listed"},
      {"{tensor: 3}", "parallel.tensor", "heads 4"},
      {"{context: 3}", "parallel.context", "not divisible by 2 × context 3"},
      {"{context: 8, context_method: all_to_all}", "parallel.context", "heads 4"},
      {"{expert: 2, data: 2}", "parallel.expert", "dense model"},
  };
  for (const auto& c : cases) {
    Problems problems("job.yaml");
    ReadOptions options;
    options.settings = {"model.layers=4", "parallel=" + c.parallel};
    const JobFile file = ReadJob(GoodJob(), options, problems);
    CheckSupported(file.job, file.positions, problems);
    bool found = false;
    for (const Problem& problem : problems.Sorted()) {
      if (problem.path != c.path) continue;
      found = true;
      EXPECT_THAT(problem.what, HasSubstr(c.says)) << c.parallel;
    }
    EXPECT_TRUE(found) << c.parallel << ": " << problems.ToString();
  }
}

TEST(Layouts, ThatAreWellFormedHaveNoProblem) {
  for (const char* parallel :
       {"{data: 8, shard: zero3, virtual_shards: 8}", "{data: 4, shard: zero1, shard_group: 2}",
        "{data: 4, shard: zero3}", "{data: 8, shard: zero2, shard_group: 4, virtual_shards: 8}",
        "{tensor: 4}", "{tensor: 2, data: 2, shard: zero3, virtual_shards: 4, recompute: full}",
        "{pipeline: 2, pipeline_schedule: zbv}", "{pipeline: 2, pipeline_schedule: interleaved}",
        "{pipeline: 3, pipeline_schedule: zero_bubble, stages: [2, 1, 1]}",
        "{context: 4, context_method: ring}", "{context: 2, context_method: all_to_all}",
        "{recompute: {save: [], layers: \"0-1\"}, micro_order: layer_first}",
        "{recompute: {save: [all]}}", "{pipeline: 2, micro_order: layer_first}"}) {
    EXPECT_EQ(ToldOf({"model.layers=4", std::string("parallel=") + parallel}), "") << parallel;
  }
}

TEST(Layouts, ARefusedOne_IsToldWithTheSettingsThatMakeItLegal) {
  struct {
    std::vector<std::string> settings;
    std::string remedy;
    std::vector<std::string> followed;
  } const cases[] = {
      {{"parallel={pipeline: 2, pipeline_schedule: 1f1b, micro_order: layer_first}"},
       "use pipeline_schedule: gpipe",
       {"parallel.pipeline_schedule=gpipe"}},
      {{"parallel={data: 3}"},
       "use data: 2, virtual_shards: 2",
       {"parallel.data=2", "parallel.virtual_shards=2"}},
      {{"parallel={tensor: 3}"}, "use tensor: 2", {"parallel.tensor=2"}},
      {{"parallel={context: 3, context_method: ring}"}, "use context: 2", {"parallel.context=2"}},
      {{"parallel={pipeline: 2, stages: [1, 2]}"},
       "use stages: [2, 2]",
       {"parallel.stages=[2, 2]"}},
  };
  for (const auto& c : cases) {
    std::vector<std::string> settings = c.settings;
    settings.insert(settings.begin(), "model.layers=4");
    EXPECT_THAT(ToldOf(settings), HasSubstr(" — " + c.remedy + "\n"));
    settings.insert(settings.end(), c.followed.begin(), c.followed.end());
    EXPECT_EQ(ToldOf(settings), "") << c.remedy;
  }
}

}  // namespace
}  // namespace strata::spec
