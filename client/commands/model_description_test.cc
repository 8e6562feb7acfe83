#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "client/commands/command_test_support.h"
#include "spec/good_job.h"

namespace strata::client {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// 2 layers of 64 with 4 heads of 16, 2 of keys and values, feed-forward 128, 256 words.
TEST(DescribeModel, OfAJobFile_TellsParametersAndSavedValuesWithoutACluster) {
  const std::string job = FileWith("job.yaml", spec::GoodJob());
  const Outcome got = RunTyped({"describe", "model", job, "-o", "json"});
  ASSERT_EQ(got.code, 0) << got.err;
  const json told = json::parse(got.out);
  const int64_t block = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64;
  EXPECT_EQ(told["parameters"], 2 * 256 * 64 + 64 + 2 * block);
  std::map<std::string, int64_t> bytes;
  for (const json& value : told["saved_values"]) {
    bytes[value["name"]] = value["bytes_per_token_and_layer"];
  }
  EXPECT_EQ(bytes["qkv"], (64 + 2 * 32) * 4);
  EXPECT_EQ(bytes["gate_up"], 2 * 128 * 4);
  const Outcome table = RunTyped({"describe", "model", job});
  EXPECT_THAT(table.out, HasSubstr("log_sum_exp"));
  EXPECT_THAT(table.out, HasSubstr("Layers:        2"));
}

TEST(DescribeModel, OfABadFile_IsRefusedAtItsPlace) {
  const std::string job = FileWith("job.yaml", spec::Changed("heads: 4", "heads: x"));
  const Outcome got = RunTyped({"describe", "model", job});
  EXPECT_EQ(got.code, 2);
  EXPECT_THAT(got.err, HasSubstr("job.yaml:6:10: model.heads"));
  EXPECT_EQ(RunTyped({"describe", "model", "/nowhere.yaml"}).code, 2);
}

}  // namespace
}  // namespace strata::client
