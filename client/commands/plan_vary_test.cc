// strata plan --vary, --rank and --price.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/commands/command_test_support.h"

namespace strata::client {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// 8B, sequences of 4,096 tokens, 64 a step.
Outcome Vary(std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"plan", "--model", "llama-3.1-8b", "--global-batch", "64"});
  return RunTyped(flags);
}

json VariationsOf(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"-o", "json"});
  const Outcome outcome = Vary(flags);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return json::parse(outcome.out)["variations"];
}

TEST(PlanVary, KindsOfDevicesAreRankedByWhatTokensCost) {
  const std::vector<std::string> kinds = {"--devices", "8", "--vary", "device=h100,a100-80"};
  const auto first = [&](const char* prices, const char* by) {
    std::vector<std::string> flags = kinds;
    flags.insert(flags.end(), {"--price", prices, "--rank", by});
    const json rows = VariationsOf(flags);
    EXPECT_EQ(rows.size(), 2u);
    const char* key = std::string(by) == "money" ? "price_per_billion_tokens" : "seconds";
    EXPECT_LE(rows[0]["plans"][0][key], rows[1]["plans"][0][key]);
    return rows[0]["device"].get<std::string>();
  };
  EXPECT_EQ(first("h100=2,a100-80=1.9", "money"), "H100");
  EXPECT_EQ(first("h100=20,a100-80=1", "money"), "A100-80GB");
  EXPECT_EQ(first("h100=20,1", "money"), "A100-80GB");
  EXPECT_EQ(first("h100=20,a100-80=1", "time"), "H100");
  std::vector<std::string> table = kinds;
  table.insert(table.end(), {"--price", "2", "--tokens", "1e12"});
  EXPECT_THAT(Vary(table).out, AllOf(HasSubstr("on 8 H100, A100-80GB"), HasSubstr("RUN"),
                                     HasSubstr("device=a100-80")));
}

TEST(PlanVary, FewerDevicesAreCheaperAndMoreAreFaster) {
  const auto sets = [](const char* by) {
    std::vector<std::string> sets;
    for (const json& row :
         VariationsOf({"--vary", "devices=16,64,32", "--price", "2", "--rank", by})) {
      sets.push_back(row["set"]);
    }
    return sets;
  };
  EXPECT_THAT(sets("time"), testing::ElementsAre("devices=64", "devices=32", "devices=16"));
  EXPECT_EQ(sets("money")[2], "devices=64");
}

TEST(PlanVary, OfOneNumberOfDevicesMoneyRanksAsTimeDoesWhichIsSaid) {
  const Outcome outcome = Vary({"--devices", "8", "--price", "2", "--rank", "money"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("the fastest is the cheapest"));
}

TEST(PlanVary, WhatDoesNotFitIsToldWithWhatItNeeds) {
  const std::vector<std::string> flags = {"--vary", "devices=1,8", "--no-offload", "--device",
                                          "h100"};
  const json rows = VariationsOf(flags);
  EXPECT_TRUE(rows[0]["plans"].empty());
  const json& memory = rows[0]["smallest"]["memory"];
  EXPECT_GT(memory["device_bytes"], memory["device_limit_bytes"]);
  EXPECT_THAT(Vary(flags).out,
              testing::ContainsRegex("does not fit: needs [0-9.]+ GB of 81.2 with data 1"));
}

TEST(PlanVary, WhereNoLayoutIsLegalThePinToBlameIsTold) {
  const std::vector<std::string> flags = {"--vary", "devices=32,8", "--pin", "pipeline=16"};
  EXPECT_THAT(VariationsOf(flags)[1]["why_none"].get<std::string>(),
              HasSubstr("pipeline=16 does not cut 8 devices and 32 layers"));
  EXPECT_THAT(Vary(flags).out, HasSubstr("no legal layout: pipeline=16 does not cut"));
}

TEST(PlanVary, BytesOnTheHostAreShown) {
  const std::vector<std::string> flags = {"--devices", "8", "--pin", "offload=optimizer"};
  EXPECT_THAT(Vary(flags).out, HasSubstr("HOST"));
  EXPECT_THAT(Vary({"--devices", "8", "--no-offload"}).out, Not(HasSubstr("HOST")));
  std::vector<std::string> structured = flags;
  structured.insert(structured.end(), {"-o", "json"});
  const json plan = json::parse(Vary(structured).out)["plans"][0];
  EXPECT_GT(plan["memory"]["host_bytes"], 1e9);
  EXPECT_TRUE(plan["memory"]["host_limit_bytes"].is_null());
}

TEST(PlanVary, TheHostsMemoryLimitsPlans) {
  const auto with = [](const char* size) {
    return Vary({"--devices", "1", "--device", "h100", "--host-memory", size, "-o", "json"});
  };
  const json memory = json::parse(with("128GiB").out)["plans"][0]["memory"];
  EXPECT_GT(memory["host_bytes"], 8e9 * 12);
  EXPECT_EQ(memory["host_limit_bytes"], 128.0 * (1 << 30));
  EXPECT_EQ(with("80GiB").code, 3);
}

TEST(PlanVary, PlansFitByTheProgramsThatRanksWouldRun) {
  const Outcome outcome = Vary({"--devices", "8", "-o", "json"});
  for (const json& plan : json::parse(outcome.out)["plans"]) {
    EXPECT_EQ(plan["memory"]["source"], "program");
    EXPECT_LE(plan["memory"]["device_bytes"], plan["memory"]["device_limit_bytes"]);
  }
  const Outcome others = Vary({"--devices", "8", "--framework", "nemo", "-o", "json"});
  EXPECT_EQ(json::parse(others.out)["plans"][0]["memory"]["source"], "closed form");
  // So many passes take more than a moment, and nobody asked.
  const Outcome large = RunTyped({"plan", "--model", "llama-3.1-405b", "--devices", "16384",
                                  "--global-batch", "2048", "--top", "1"});
  EXPECT_THAT(large.out, AllOf(HasSubstr(" ~"), HasSubstr("~ by formula")));
}

TEST(PlanVary, AFlagThatIsVariedTooIsNotReadWhichIsSaid) {
  EXPECT_THAT(Vary({"--devices", "4", "--vary", "devices=8,16"}).err,
              HasSubstr("--devices 4 is not read: --vary devices"));
  EXPECT_THAT(Vary({"--devices", "8", "--vary", "global_batch=8,16"}).err,
              HasSubstr("--global-batch 64 is not read"));
  const Outcome alone = RunTyped(
      {"plan", "--model", "llama-3.1-8b", "--devices", "8", "--vary", "global_batch=32,64"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_THAT(alone.out, HasSubstr("global_batch=32"));
}

TEST(PlanVary, ADeviceWithoutBf16IsTold) {
  EXPECT_THAT(Vary({"--devices", "8", "--device", "v100"}).err, HasSubstr("V100 has no bf16"));
  EXPECT_THAT(Vary({"--devices", "8", "--device", "a100-80"}).err, Not(HasSubstr("bf16")));
}

TEST(PlanVary, MistakesNameTheirFlagAndEndWithTwo) {
  const struct {
    std::vector<std::string> flags;
    const char* text;
  } cases[] = {
      {{"--devices", "8", "--rank", "money"}, "--rank: money needs a price"},
      {{"--devices", "8", "--rank", "size"}, "--rank"},
      {{"--devices", "8", "--price", "x"}, "--price: \"x\" is no positive number"},
      {{"--devices", "8", "--price", "0"}, "--price: \"0\" is no positive number"},
      {{"--devices", "8", "--price", "1,2"}, "--price: says two prices of any kind"},
      {{"--devices", "8", "--price", "zx81=2"}, "--price: no profile of a GPU named zx81"},
      {{"--devices", "8", "--price", "h100=2,H100=3"}, "--price: H100 has two prices"},
      {{"--devices", "8", "--price", "a100=2"}, "--price: has no price of H100 — add h100=MONEY"},
      {{"--devices", "8", "--vary", "device=zx81"}, "--vary: no profile of a GPU named zx81"},
      {{"--devices", "8", "--vary", "device=h100", "--device", "h100"}, "--device: --vary device"},
      {{"--devices", "8", "--host-memory", "much"}, "--host-memory: "},
      {{"--devices", "8", "--host-memory", "0"}, "--host-memory: 0 bytes"}};
  for (const auto& [flags, text] : cases) {
    const Outcome outcome = Vary(flags);
    EXPECT_EQ(outcome.code, 2) << text;
    EXPECT_THAT(outcome.err, HasSubstr(text));
  }
}

}  // namespace
}  // namespace strata::client
