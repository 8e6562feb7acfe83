#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "client/commands/command_test_support.h"
#include "spec/good_job.h"

namespace strata::client {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

TEST(FitCommand, OfAPublishedModelThatDoesNotFit_Is3WithWaysThatDo) {
  const Outcome got = RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100"});
  EXPECT_EQ(got.code, 3);
  EXPECT_THAT(got.out, AllOf(HasSubstr("Does not fit"), HasSubstr("Ways that fit"),
                             HasSubstr("optimizer"), HasSubstr("█"), HasSubstr("CUDA context")));
}

TEST(FitCommand, AsJson_HasTheKeysOfTheContract) {
  const Outcome got = RunTyped(
      {"fit", "--model", "llama-3.1-8b", "--device", "a100-80", "--devices", "2", "-o", "json"});
  EXPECT_EQ(got.code, 3);
  const json told = json::parse(got.out);
  EXPECT_FALSE(told["fits"]);
  ASSERT_EQ(told["ranks"].size(), 2);
  EXPECT_EQ(told["ranks"][1]["rank"], 1);
  EXPECT_EQ(told["worst"], 0);
  EXPECT_NEAR(told["ranks"][0]["tiers"]["device"]["parameters"].get<double>(), 16.06e9, 1e7);
  ASSERT_FALSE(told["ways"].empty());
  const json& way = told["ways"][0];
  EXPECT_EQ(way["parallel"]["data"], 2);
  EXPECT_TRUE(way["memory"].is_object());
  EXPECT_TRUE(way["seconds"].is_null() || way["seconds"] > 0) << way["text"];
  EXPECT_TRUE(way["text"].is_string());
  EXPECT_EQ(told["source"], "program");
}

TEST(FitCommand, OfAThatFits_IsDoneWithItsArithmetic) {
  const Outcome got = RunTyped(
      {"fit", "--model", "llama-3.1-8b", "--device", "24GB", "--method", "qlora", "--explain"});
  EXPECT_EQ(got.code, 0) << got.err;
  EXPECT_THAT(got.out, AllOf(HasSubstr("Fits"), HasSubstr("ARITHMETIC"),
                             HasSubstr("quantised weights × 0.519531 B")));
}

TEST(FitCommand, OfAJobFile_IsReadFromItsPrograms) {
  const std::string job = FileWith("job.yaml", spec::GoodJob());
  const Outcome got = RunTyped({"fit", job, "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const json told = json::parse(got.out);
  EXPECT_TRUE(told["fits"]);
  EXPECT_EQ(told["source"], "program");
  EXPECT_TRUE(told["overhead"].empty());
}

TEST(FitCommand, WithMax_TellsTheLargestAndWhatBinds) {
  const Outcome got = RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100", "--method",
                                "lora", "--max", "seq", "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const json told = json::parse(got.out);
  EXPECT_EQ(told["max"]["of"], "seq");
  const int64_t most = told["max"]["value"];
  EXPECT_THAT(told["max"]["bound"].get<std::string>(), HasSubstr("the device of rank 0"));
  for (const int64_t more : {0, 1}) {
    const Outcome at = RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100", "--method",
                                 "lora", "--seq", std::to_string(most + more)});
    EXPECT_EQ(at.code, more == 0 ? 0 : 3);
  }
}

TEST(FitCommand, AgainstZeroInfinity_NamesVersionRoundingAndType) {
  const Outcome got = RunTyped(
      {"fit", "--model", "llama-3.1-8b", "--device", "h100", "--against", "zero-infinity"});
  EXPECT_THAT(got.out, AllOf(HasSubstr("edaa722"), HasSubstr("bf16"), HasSubstr("powers of two"),
                             HasSubstr("44.00 GiB"), HasSubstr("grad_partitions_flat_buffer")));
}

TEST(FitCommand, WhatTheEngineCannotRun_IsSaidToBeAClosedForm) {
  const Outcome got = RunTyped({"fit", "--model", "mixtral-8x7b", "--device", "h100", "--method",
                                "inference", "--precision", "nf4"});
  EXPECT_EQ(got.code, 0) << got.out << got.err;
  EXPECT_THAT(got.out, HasSubstr("closed forms"));
}

// The published config.json, as far as it is read.
constexpr char kMixtral[] =
    R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})";

// By programs, and by closed forms.
TEST(FitCommand, OfStateInUnifiedMemory_CountsHomesOnTheHostAndRoomsOnTheCard) {
  for (const char* model : {"llama-3.1-8b", "mixtral-8x7b"}) {
    const Outcome got = RunTyped({"fit", "--model", model, "--device", "gh200", "--seq", "2048",
                                  "--memory", "{place: {optimizer: unified}}", "-o", "json"});
    const json report = json::parse(got.out);
    const json& tiers = report["ranks"][0]["tiers"];
    const double parameters = report["parameters"];
    const double host =
        tiers["host"]["master"].get<double>() + tiers["host"]["optimizer"].get<double>();
    EXPECT_NEAR(host / (12 * parameters), 1, 1e-3) << model;
    EXPECT_GT(tiers["device"]["staging"], 300 << 20) << model;
    EXPECT_LE(tiers["device"]["staging"], 384 << 20) << model;
  }
}

TEST(FitCommand, MixtralByItsConfig_IsThePreset) {
  const std::string config = FileWith("mixtral.json", kMixtral);
  for (const char* method : {"full", "qlora", "inference"}) {
    json told[2];
    for (int i = 0; i < 2; ++i) {
      const Outcome got = RunTyped({"fit", "--model", i == 0 ? "mixtral-8x7b" : config, "--method",
                                    method, "--device", "h100", "-o", "json"});
      ASSERT_LE(got.code, 3) << got.err;
      told[i] = json::parse(got.out);
    }
    EXPECT_EQ(told[0]["parameters"], 46702792704) << method;
    EXPECT_EQ(told[0]["parameters"], told[1]["parameters"]) << method;
    EXPECT_EQ(told[0]["ranks"], told[1]["ranks"]) << method;
  }
}

TEST(FitCommand, FlagsThatChangeNothing_AreTold) {
  const auto told = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"fit", "--model", "gpt2", "--device", "4GB"});
    return RunTyped(flags).err;
  };
  EXPECT_THAT(told({"--max", "seq", "--seq", "5"}), HasSubstr("--seq 5 changes nothing"));
  EXPECT_THAT(told({"--max", "micro-batch", "--micro-batch", "5"}),
              HasSubstr("--micro-batch 5 changes nothing"));
  EXPECT_THAT(told({"--method", "inference", "--optimizer", "8bit"}),
              HasSubstr("--optimizer 8bit changes nothing: inference trains nothing"));
  EXPECT_EQ(told({"--max", "micro-batch", "--seq", "64"}), "");
}

// Adapter directories, checkpoints and files of weights are often named for the model.
TEST(FitCommand, WhatIsNoModel_IsToldAsWhatItIs) {
  const std::string folder = testing::TempDir() + "no-model";
  std::filesystem::create_directories(folder + "/adapter");
  std::filesystem::create_directories(folder + "/empty");
  std::ofstream(folder + "/adapter/adapter_config.json") << "{}";
  std::ofstream(folder + "/model.safetensors") << std::string(2 << 20, 'x');
  const std::pair<const char*, const char*> cases[] = {
      {"/adapter", "the directory is an adapter's"},
      {"/empty", "config.json: is not there"},
      {"/model.safetensors", "too large to be a config.json"},
      {"/nothing", "nor is it a directory or a config.json"}};
  for (const auto& [name, said] : cases) {
    const Outcome got = RunTyped({"fit", "--model", folder + name});
    EXPECT_EQ(got.code, 2) << name;
    EXPECT_THAT(got.err, HasSubstr(said)) << name;
  }
}

TEST(FitCommand, OfAnEnormousPass_AnswersInAMoment) {
  const auto begin = std::clock();
  const Outcome got =
      RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100", "--micro-batch", "65536"});
  EXPECT_EQ(got.code, 3);
  EXPECT_THAT(got.out, HasSubstr("Ways that fit"));
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 10);
}

TEST(FitCommand, OfAModel_SettingsGoOverWhatFlagsMake) {
  const auto told = [](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"fit", "--model", "llama-3.2-1b", "--device", "h100"});
    return RunTyped(flags).out;
  };
  EXPECT_THAT(told({"--set", "train.global_batch=32"}), HasSubstr("32 sequences a step"));
  EXPECT_THAT(told({"--set", "train.micro_batch=4"}), HasSubstr("4 × 2048 tokens, 4 sequences"));
  EXPECT_THAT(told({"--set", "train.global_batch=32", "--max", "devices"}),
              HasSubstr("32 sequences a step"));
}

TEST(FitCommand, OfUnifiedAndCoherentMemory_SaysSo) {
  const auto told = [](const char* device) {
    return RunTyped({"fit", "--model", "gpt2", "--device", device}).out;
  };
  EXPECT_THAT(told("gb10"), HasSubstr("gb10: host and device are one memory"));
  EXPECT_THAT(told("gb300"), AllOf(HasSubstr("gb300: the link to the host is coherent"),
                                   HasSubstr("223.52 GiB of the host for each device")));
  const json device = json::parse(
      RunTyped({"fit", "--model", "gpt2", "--device", "gh200", "-o", "json"}).out)["device"];
  EXPECT_EQ(device["host_bytes"], 480'000'000'000);
  EXPECT_TRUE(device["coherent"]);
}

TEST(FitCommand, OfATooSmallHost_DoesNotFit) {
  const Outcome got = RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100", "--memory",
                                "{place: {optimizer: host}}", "--set", "memory.host=64GiB"});
  EXPECT_EQ(got.code, 3);
  EXPECT_THAT(got.out, HasSubstr("the host memory of rank 0 would hold"));
}

struct BadCase {
  std::vector<std::string> typed;
  const char* said;
};

TEST(FitCommand, BadInput_Is2AndSaysWhatToDo) {
  const std::string bad = FileWith("bad.yaml", spec::Changed("heads: 4", "heads: x"));
  const BadCase cases[] = {
      {{"fit"}, "say what to look at"},
      {{"fit", bad}, "bad.yaml:6:10: model.heads"},
      {{"fit", bad, "--model", "gpt2"}, "not both"},
      {{"fit", bad, "--seq", "5"}, "--set PATH=VALUE"},
      {{"fit", "--model", "lama-3.1-8b"}, "the nearest is llama-3.1-8b"},
      {{"fit", "--model", "gpt2", "--device", "h1000"}, "h100"},
      {{"fit", "--model", "gpt2", "--seq", "2048"}, "--seq"},
      {{"fit", "--model", "gpt2", "--precision", "nf4"}, "qlora"},
      {{"fit", "--model", "gpt2", "--parallel", "{shard: zer3}"}, "--parallel:1:9: parallel.shard"},
      {{"fit", "--model", "gpt2", "--parallel", "{data:2}"},
       "--parallel:1:2: parallel.data:2: unknown field — write a space after the colon: data: 2"},
      {{"fit", "--model", "gpt2", "--parallel", "auto"}, "--parallel: auto says nothing to count"},
      {{"fit", "--model", "gpt2", "--memory", "auto"}, "--memory: auto says nothing to count"},
      {{"fit", "--model", "gpt2", "--memory", "{devise: 1GiB}"}, "memory.devise"},
      {{"fit", "--model", "gpt2", "--set", "train.global_batch=x"}, "--set:1:"},
      {{"fit", "--model", "gpt2", "--set", "model.layers=3"}, "--set: model.layers: says nothing"},
      {{"fit", "--model", "gpt2", "--device", "h100", "--price", "a100=2"},
       "--price: has no price of h100"},
      {{"fit", "--model", "gpt2", "--max", "width"}, "--max"}};
  for (const BadCase& c : cases) {
    const Outcome got = RunTyped(c.typed);
    EXPECT_EQ(got.code, 2) << c.said << ": " << got.out << got.err;
    EXPECT_THAT(got.err, HasSubstr(c.said));
  }
}

TEST(FitCommand, OfAnImpossibleLayout_Is3OrNamesTheFlag) {
  const Outcome got = RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100", "--devices",
                                "3", "--parallel", "{tensor: 3}"});
  EXPECT_EQ(got.code, 3);
  EXPECT_THAT(got.err, HasSubstr("--parallel"));
}

TEST(FitCommand, Of8B_AnswersInLessThanTwoSeconds) {
  const auto begin = std::chrono::steady_clock::now();
  RunTyped({"fit", "--model", "llama-3.1-8b", "--device", "h100", "--devices", "8"});
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(took.count(), 2);
}

TEST(Fit, APriceTellsWhatTokensCost_AndPutsTheCheapestWayFirst) {
  const std::vector<std::string> flags = {
      "fit",     "--model", "llama-3.1-70b", "--device", "h100",     "--seq", "4096",
      "--price", "2",       "--tokens",      "1e12",     "--output", "json"};
  const nlohmann::json found = nlohmann::json::parse(RunTyped(flags).out);
  double last = 0;
  int known = 0;
  for (const auto& way : found["ways"]) {
    if (way["price_per_billion_tokens"].is_null()) continue;
    const double price = way["price_per_billion_tokens"];
    EXPECT_GE(price, last);
    EXPECT_NEAR(way["price_of_run"], 1000 * price, 1e-6 * price);
    last = price;
    ++known;
  }
  EXPECT_GT(known, 0);
  const Outcome fits = RunTyped({"fit", "--model", "gpt2", "--device", "h200", "--price", "3"});
  EXPECT_EQ(fits.code, 0);
  EXPECT_NE(fits.out.find(" per 1e9 tokens"), std::string::npos) << fits.out;
}

}  // namespace
}  // namespace strata::client
