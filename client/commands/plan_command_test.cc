#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

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

json PlanOf(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "plan");
  flags.insert(flags.end(), {"-o", "json"});
  const Outcome outcome = RunTyped(flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return json::parse(outcome.out);
}

TEST(Plan, RanksLayoutsWithTermsThatAddUpAndReasons) {
  const json plans = PlanOf({"--model", "llama-3.1-405b", "--devices", "16384", "--global-batch",
                             "2048", "--seq", "8192", "--top", "4"})["plans"];
  ASSERT_EQ(plans.size(), 4u);
  double before = 0;
  for (const json& plan : plans) {
    int64_t devices = 1;
    for (const char* degree : {"tensor", "context", "pipeline", "data"}) {
      devices *= plan["parallel"].value(degree, 1);
    }
    EXPECT_EQ(devices, 16384);
    EXPECT_LE(plan["memory"]["device_bytes"], plan["memory"]["device_limit_bytes"]);
    double sum = 0;
    for (const auto& term : plan["terms"]) sum += term.get<double>();
    EXPECT_NEAR(sum, plan["seconds"], 1e-9);
    EXPECT_GE(plan["seconds"], before);
    before = plan["seconds"];
    EXPECT_FALSE(plan["why"].get<std::string>().empty());
    EXPECT_LT(plan["mfu_causal"], plan["mfu_full_attention"]);
  }
}

TEST(Plan, PinnedLayoutIsEvaluatedAlone) {
  const json plans =
      PlanOf({"--model", "llama-3.1-405b", "--devices", "16384", "--global-batch", "2048", "--pin",
              "tensor=8,pipeline=16,virtual_stages=8,context=1,micro_batch=1", "--pin",
              "shard=zero1,shard_group=128,recompute=none,offload=none"})["plans"];
  ASSERT_EQ(plans.size(), 1u);
  EXPECT_EQ(plans[0]["parallel"],
            json::parse(R"({"tensor": 8, "pipeline": 16, "pipeline_schedule": "interleaved",
                            "virtual_stages": 8, "data": 128, "shard": "zero1",
                            "micro_batch": 1})"));
}

TEST(Plan, WhatBlocksSaveMayBePinned) {
  const std::vector<std::string> flags = {"--model",        "llama-3.1-8b", "--devices", "8",
                                          "--seq",          "4096",         "--top",     "1",
                                          "--global-batch", "64",           "--pin"};
  const auto pinned = [&](const std::string& pin) {
    std::vector<std::string> all = flags;
    all.push_back(pin);
    return all;
  };
  const json plan = PlanOf(pinned("recompute=save:qkv+attention"))["plans"][0];
  EXPECT_EQ(plan["parallel"]["recompute"], "{save: [qkv, attention, log_sum_exp]}");
  EXPECT_THAT(plan["why"].get<std::string>(), HasSubstr("; saved: qkv, attention ("));
  EXPECT_THAT(plan["why"].get<std::string>(), HasSubstr("; made again: norms "));
  EXPECT_EQ(PlanOf(pinned("recompute=save:all"))["plans"][0]["parallel"]["recompute"],
            "{save: [all]}");
  const auto error = [&](std::vector<std::string> all) {
    all.insert(all.begin(), "plan");
    const Outcome outcome = RunTyped(all);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_THAT(error(pinned("recompute=save:qvk")), HasSubstr("qvk is none of norms, qkv"));
  std::vector<std::string> others = pinned("recompute=save:qkv");
  others.insert(others.end(), {"--framework", "nemo"});
  EXPECT_THAT(error(others), HasSubstr("of Strata's own steps"));
}

TEST(Plan, OfACoherentLinkTheOptimizersStateMayBeInUnifiedMemory) {
  const std::vector<std::string> flags = {
      "--model", "llama-3.1-8b", "--devices", "1", "--global-batch", "1", "--seq", "2048"};
  const auto fastest = [&](const std::string& device, const std::string& pin) {
    std::vector<std::string> all = flags;
    all.insert(all.end(), {"--device", device});
    if (!pin.empty()) all.insert(all.end(), {"--pin", "offload=" + pin});
    return PlanOf(all)["plans"][0];
  };
  const json open = fastest("gh200", "");
  EXPECT_EQ(open["memory"]["place"]["optimizer"], "unified");
  EXPECT_THAT(open["why"].get<std::string>(), HasSubstr("updated on the host the step would take"));
  EXPECT_EQ(fastest("gh200", "unified")["seconds"], open["seconds"]);
  EXPECT_EQ(fastest("gh200", "all_unified")["memory"]["place"]["activations"], "host");
  EXPECT_GT(fastest("gh200", "optimizer")["seconds"], open["seconds"]);
  EXPECT_EQ(fastest("h100", "")["memory"]["place"]["optimizer"], "host");  // by PCIe
  EXPECT_EQ(fastest("h100", "unified")["memory"]["place"]["optimizer"], "unified");
}

TEST(Plan, JobsRankTheLayoutsOfTheirRanks) {
  const std::string job =
      FileWith("planned.yaml",
               "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
               "data: {train: [{path: t}]}\ntrain: {sequence: 32, global_batch: 8}\n");
  const json plans = PlanOf({job, "--devices", "2", "--top", "100"})["plans"];
  std::set<std::string> layouts;
  double before = 0;
  for (const json& plan : plans) {
    EXPECT_TRUE(layouts.insert(plan["parallel"].dump()).second) << plan["parallel"];
    EXPECT_GE(plan["seconds"], before);
    before = plan["seconds"];
    EXPECT_EQ(plan["parallel"].value("tensor", 1) * plan["parallel"].value("data", 1) *
                  plan["parallel"].value("context", 1) * plan["parallel"].value("pipeline", 1),
              2);
  }
  EXPECT_GE(layouts.size(), 10u);
  EXPECT_THAT(RunTyped({"plan", job, "--devices", "2"}).out, HasSubstr("STEP"));
  EXPECT_EQ(RunTyped({"plan"}).code, 2);
  EXPECT_EQ(RunTyped({"plan", job, "--model", "gpt2"}).code, 2);
}

TEST(Plan, JobsWithDegreesAreRankedForTheirRanks) {
  const std::string job =
      FileWith("degrees.yaml",
               "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
               "data: {train: [{path: t}]}\ntrain: {sequence: 32, global_batch: 8}\n"
               "parallel: {tensor: 2}\n");
  const json first = PlanOf({job})["plans"][0]["parallel"];
  EXPECT_EQ(first.value("tensor", 1) * first.value("data", 1) * first.value("context", 1) *
                first.value("pipeline", 1),
            2);
  EXPECT_THAT(PlanOf({job, "--devices", "4", "--top", "100"})["plans"].dump(),
              HasSubstr("parallel={data: 4"));
}

TEST(Plan, MixtralByItsConfigIsThePreset) {
  const std::string config =
      FileWith("mixtral.json",
               R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
          "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
          "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
          "rope_theta": 1e6, "sliding_window": null, "vocab_size": 32000})");
  const auto fastest = [](const std::string& model) {
    return PlanOf({"--model", model, "--devices", "64", "--global-batch", "64"})["plans"][0];
  };
  const json plan = fastest(config);
  EXPECT_EQ(plan["seconds"], fastest("mixtral-8x7b")["seconds"]);
  EXPECT_GT(plan["seconds"], 3 * fastest("mistral-7b")["seconds"].get<double>() / 2);
}

TEST(Plan, PricesAreOfDeviceHours) {
  const json plan = PlanOf({"--model", "llama-3.1-8b", "--devices", "8", "--global-batch", "64",
                            "--price", "2", "--tokens", "1e12", "--top", "1"})["plans"][0];
  const double hours = 1e9 / plan["tokens_per_second_per_device"].get<double>() / 3600;
  EXPECT_NEAR(plan["price_per_billion_tokens"], 2 * hours, 1e-9 * hours);
  EXPECT_NEAR(plan["price_of_run"], 2000 * hours, 1e-6 * hours);
}

constexpr char kPlanTopology[] = R"(
levels: [zone, domain]
links:
  zone: {bytes_per_second: 7e9, latency_seconds: 2e-5, oversubscription: 7}
  domain: {bytes_per_second: 450e9, latency_seconds: 1e-6}
nodes:
  - {name: n0, at: {zone: z0, domain: d0}, device: h100, devices: 8}
  - {name: n1, at: {zone: z0, domain: d1}, device: h100, devices: 8}
  - {name: n2, at: {zone: z0, domain: d2}, device: h100, devices: 8}
  - {name: n3, at: {zone: z0, domain: d3}, device: h100, devices: 8}
)";

TEST(Plan, TheFastestIsPlacedOnTheClusterAndTimedInEachOrder) {
  const std::string file = FileWith("cluster.yaml", kPlanTopology);
  const std::vector<std::string> flags = {
      "--model", "llama-3.1-70b", "--topology", file, "--global-batch", "64", "--no-offload"};
  const json plans = PlanOf(flags)["plans"];
  const json& map = plans[0]["rank_map"];
  EXPECT_NEAR(map["seconds"], plans[0]["seconds"], 0.05 * plans[0]["seconds"].get<double>());
  for (const char* order : {"contiguous", "random", "hostname"}) {
    EXPECT_GE(map[order], map["seconds"]) << order;
  }
  EXPECT_FALSE(plans[1].contains("rank_map"));
  std::vector<std::string> typed = {"plan"};
  typed.insert(typed.end(), flags.begin(), flags.end());
  EXPECT_THAT(RunTyped(typed).out, HasSubstr("Placed on the cluster, 1 takes "));
}

TEST(Plan, ADeviceNamesTheSizeOfMemoryThatATopologyLeavesOpen) {
  const std::string file =
      FileWith("a100.yaml",
               "levels: [zone, domain]\n"
               "links:\n  zone: {bytes_per_second: 25e9, latency_seconds: 2e-5}\n"
               "  domain: {bytes_per_second: 300e9, latency_seconds: 1e-6}\n"
               "nodes:\n  - {name: n0, at: {zone: z0, domain: d0}, device: a100, devices: 8}\n");
  const auto limit = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--model", "llama-3.1-8b", "--topology", file, "--global-batch", "8",
                               "--top", "1"});
    return PlanOf(flags)["plans"][0]["memory"]["device_limit_bytes"].get<double>();
  };
  EXPECT_GT(limit({}), 80e9);
  EXPECT_LT(limit({"--device", "a100-40"}), 43e9);
  EXPECT_GT(limit({"--device", "a100-80"}), 80e9);
}

TEST(Plan, OversubscribedNetworksOfATopologyAreSlower) {
  const std::string file = FileWith("cluster.yaml", kPlanTopology);
  const json variations =
      PlanOf({"--model", "llama-3.1-70b", "--topology", file, "--global-batch", "64", "--vary",
              "links.zone.oversubscription=1,7,14"})["variations"];
  ASSERT_EQ(variations.size(), 3u);
  double before = 0;
  for (const json& variation : variations) {
    const double seconds = variation["plans"][0]["seconds"];
    EXPECT_GT(seconds, before) << variation["set"];
    before = seconds;
  }
}

TEST(Plan, ModelThatDoesNotFitEndsWithThreeAndWhatItNeeds) {
  const Outcome outcome = RunTyped({"plan", "--model", "llama-3-70b", "--devices", "8", "--device",
                                    "l4", "--global-batch", "8", "--no-offload"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("legal layouts fits: the smallest, "));
  EXPECT_EQ(RunTyped({"plan", "--model", "llama-3.1-8b", "--devices", "64", "--global-batch", "7",
                      "--pin", "tensor=1,pipeline=1,context=1"})
                .code,
            3);
}

TEST(Plan, NothingFitsInJsonIsToldWithTheSmallest) {
  const Outcome outcome = RunTyped({"plan", "--model", "llama-3-70b", "--devices", "8", "--device",
                                    "l4", "--global-batch", "8", "--no-offload", "-o", "json"});
  EXPECT_EQ(outcome.code, 3);
  const json found = json::parse(outcome.out);
  EXPECT_TRUE(found["plans"].empty());
  const json& memory = found["smallest"]["memory"];
  EXPECT_GT(memory["device_bytes"], memory["device_limit_bytes"]);
}

TEST(Plan, WhereTheHostsMemoryIsTooSmallThatIsSaid) {
  const std::vector<std::string> flags = {"plan", "--model",  "llama-3.1-70b", "--devices",
                                          "1",    "--device", "gh200",         "--global-batch",
                                          "1",    "--pin",    "offload=all"};
  const Outcome outcome = RunTyped(flags);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("GB of a device's share of its host, "));
  std::vector<std::string> structured = flags;
  structured.insert(structured.end(), {"-o", "json"});
  EXPECT_TRUE(json::parse(RunTyped(structured).out).contains("smallest"));
}

TEST(Plan, PlansOfStrataAreReplayed_WhereItTakesAMomentOrIsAskedFor) {
  const std::vector<std::string> small = {
      "--model", "gpt2", "--devices", "2", "--global-batch", "8", "--seq", "512", "--top", "2"};
  for (const json& plan : PlanOf(small)["plans"]) {
    EXPECT_NEAR(plan["replay"]["seconds"], plan["seconds"], 0.5 * plan["seconds"].get<double>());
    double sum = 0;
    for (const auto& term : plan["replay"]["terms"]) sum += term.get<double>();
    EXPECT_NEAR(sum, plan["replay"]["seconds"], 0.02 * sum);
  }
  // So many ranks and micro-batches would take a while, and nobody asked.
  const json large = PlanOf({"--model", "llama-3.1-405b", "--devices", "16384", "--global-batch",
                             "2048", "--seq", "8192", "--top", "1"});
  EXPECT_FALSE(large["plans"][0].contains("replay"));
  const json others = PlanOf({"--model", "gpt2", "--devices", "2", "--global-batch", "8",
                              "--framework", "megatron-lm", "--top", "1"});
  EXPECT_EQ(others["framework"], "megatron-lm");
  EXPECT_FALSE(others["plans"][0].contains("replay"));
  const json narrow = PlanOf({"--model", "gpt2", "--devices", "2", "--global-batch", "8",
                              "--precision", "fp8", "--replay", "--top", "1"});
  EXPECT_TRUE(narrow["plans"][0]["replay"].is_null());
  EXPECT_THAT(narrow["plans"][0]["replay_reason"].get<std::string>(), HasSubstr("fp8"));
}

TEST(Plan, VariationWithoutALegalLayoutIsToldBesideTheOthers) {
  const std::vector<std::string> flags = {"--model", "llama-3.1-8b", "--global-batch",
                                          "8",       "--vary",       "devices=7,8"};
  const json variations = PlanOf(flags)["variations"];
  ASSERT_EQ(variations.size(), 2u);
  EXPECT_EQ(variations[0]["legal"], 0);
  EXPECT_TRUE(variations[0]["plans"].empty());
  EXPECT_EQ(variations[1]["plans"].size(), 1u);
  std::vector<std::string> typed = {"plan"};
  typed.insert(typed.end(), flags.begin(), flags.end());
  EXPECT_THAT(RunTyped(typed).out, HasSubstr("no legal layout"));
}

TEST(Plan, FlagsThatDoNotGoTogetherAreRefused) {
  const std::string job =
      FileWith("together.yaml",
               "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n"
               "data: {train: [{path: t}]}\ntrain: {sequence: 32, global_batch: 8}\n");
  const Outcome of_job = RunTyped({"plan", job, "--pin", "tensor=2", "--seq", "64"});
  EXPECT_EQ(of_job.code, 2);
  EXPECT_THAT(of_job.err, HasSubstr("--pin: goes with --model"));
  EXPECT_THAT(of_job.err, HasSubstr("--seq: goes with --model"));
  const Outcome of_model = RunTyped({"plan", "--model", "llama-3.1-8b", "--devices", "8",
                                     "--global-batch", "8", "--set", "train.steps=1"});
  EXPECT_EQ(of_model.code, 2);
  EXPECT_THAT(of_model.err, HasSubstr("--set: goes with a job file"));
}

TEST(Plan, SequencesLongerThanTheModelKnowsAreTold) {
  const Outcome outcome = RunTyped(
      {"plan", "--model", "llama-2-7b", "--devices", "8", "--seq", "8192", "--global-batch", "8"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("--seq 8192 is longer than the model's 4096 positions"));
}

TEST(Plan, MistakesNameTheirFlagAndEndWithTwo) {
  const struct {
    std::vector<std::string> flags;
    const char* text;
  } cases[] = {
      {{"--model", "llama-3.1-8", "--devices", "8"}, "the nearest is llama-3.1-8b"},
      {{"--model", "bert-base", "--devices", "8"}, "--model: bert-base is not a decoder"},
      {{"--model", "llama-3.1-8b"}, "--devices: say how many"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--pin", "foo=3"}, "--pin: foo: one of"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--pin", "tensor=x"}, "--pin: tensor=x"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--device", "zx81"}, "name one of "},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--pin", "tensor=2,tensor=4"},
       "--pin: tensor is pinned twice"},
      {{"--model", "llama-3.1-8b", "--vary", "devices=1,2", "--vary", "devices=8"},
       "--vary: devices is varied twice"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--pin", "shard=none,shard_group=4"},
       "--pin: shard=none shares nothing"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--tokens", "1e300"}, "--tokens 1e300"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--vary", "domain=a"}, "--vary: domain=a"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--vary", "domain=inf"}, "--vary: domain=inf"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--vary", "devices=1e18"}, "at most 16777216"},
      {{"--model", "llama-3.1-8b", "--devices", "9000000000000000000"}, "at most 16777216"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--vary", "links.zone.oversubscription=2"},
       "it comes with --topology"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--framework", "jax"},
       "--framework: jax: one"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--framework", "nemo", "--replay"},
       "--replay: walks Strata's own programs"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--no-offload", "--pin", "offload=all"},
       "--no-offload: --pin offload says"},
      {{"--model", "llama-3.1-8b", "--devices", "8", "--precision", "int3"}, "--precision: int3"}};
  for (const auto& [flags, text] : cases) {
    std::vector<std::string> typed = {"plan", "--global-batch", "8"};
    typed.insert(typed.end(), flags.begin(), flags.end());
    const Outcome outcome = RunTyped(typed);
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
}

}  // namespace
}  // namespace strata::client
