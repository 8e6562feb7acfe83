#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/commands/command_test_support.h"

namespace strata::client {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kPlanRuns[] =
    "id,source_id,model,layers,hidden,heads,ffn_hidden,vocab,seq_len,gpu,n_gpus,tp,pp,mbs_seqs,"
    "gbs_seqs,precision,iter_time_s_best,iter_time_basis\n"
    "a-1,a,\"one, quoted\",32,4096,32,16384,50257,2048,H100,8,1,1,1,64,bf16,3.1,reported\n"
    "a-2,a,two,32,4096,32,16384,50257,2048,H100,8,2,1,1,64,fp8,,\n"
    "a-3,a,three,32,4096,32,16384,50257,2048,A100,8,2,1,1,64,fp8,,\n";

TEST(PlanEvaluate, JsonHasEveryRowWithItsTermsOrTheReason) {
  const std::string runs = FileWith("runs.csv", kPlanRuns);
  const Outcome outcome = RunTyped({"plan", "evaluate", "--runs", runs, "-o", "json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json rows = json::parse(outcome.out)["rows"];
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["id"], "a-1");
  EXPECT_GT(rows[0]["predicted_seconds"], 1);
  EXPECT_GT(rows[0]["predicted_memory_bytes"], 1e9);
  double sum = 0;
  for (const auto& term : rows[0]["terms"]) sum += term.get<double>();
  EXPECT_NEAR(sum, rows[0]["predicted_seconds"], 1e-9);
  EXPECT_TRUE(rows[0]["reason"].is_null());
  EXPECT_GT(rows[1]["predicted_seconds"], 0);
  EXPECT_TRUE(rows[2]["predicted_seconds"].is_null());
  EXPECT_EQ(rows[2]["reason"], "A100-80GB has no fp8 products");
}

TEST(PlanEvaluate, TableTellsErrorsAndWhatWasNotPredicted) {
  const Outcome outcome = RunTyped({"plan", "evaluate", "--runs", FileWith("runs.csv", kPlanRuns)});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("SOURCE  RUNS  MAPE"));
  EXPECT_THAT(outcome.out, HasSubstr("not predicted: 1 runs, A100-80GB has no fp8 products"));
}

TEST(PlanEvaluate, MistakesInTheFileAreToldWithTheirPlaceAndEndWithTwo) {
  const std::string runs = FileWith("runs.csv", absl::StrCat(kPlanRuns, "a-4,a,\"four\n"));
  const Outcome outcome = RunTyped({"plan", "evaluate", "--runs", runs});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(absl::StrCat(runs, ":5:7: this quote has no end — ")));
  EXPECT_EQ(RunTyped({"plan", "evaluate", "--runs", "/nowhere.csv"}).code, 2);
  EXPECT_EQ(RunTyped({"plan", "evaluate"}).code, 2);
}

TEST(Plan, WithoutEvaluateSaysThatItIsNotThereYet) {
  const Outcome outcome = RunTyped({"plan", "job.yaml"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("strata plan is not supported yet; strata plan evaluate is"));
}

}  // namespace
}  // namespace strata::client
