#include "client/model_sizes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace strata::client {
namespace {

using testing::HasSubstr;

std::string FolderWith(const std::string& config) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "model_sizes_" + test->name();
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

TEST(ReadModelSizes, OfLlamaTakesWhatTheFileLeavesOutAsTransformersDoes) {
  const auto sizes = ReadModelSizes(FolderWith(
      R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 256,
          "max_position_embeddings": 128, "rope_scaling": {"rope_type": "llama3"}})"));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->kv_heads, 4);
  EXPECT_EQ(sizes->head_size, 16);
  EXPECT_FALSE(sizes->tied_embeddings);
}

TEST(ReadModelSizes, OfGpt2HasItsOwnKeys) {
  const auto sizes = ReadModelSizes(FolderWith(
      R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128,
          "n_inner": null, "vocab_size": 256})"));
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(sizes->ffn, 256);
  EXPECT_TRUE(sizes->tied_embeddings);
}

TEST(ReadModelSizes, OfWhatIsNoModelNamesTheFileAndTheKey) {
  EXPECT_THAT(std::string(ReadModelSizes("/nowhere").status().message()),
              HasSubstr("/nowhere/config.json: cannot be read"));
  EXPECT_THAT(std::string(ReadModelSizes(FolderWith("[]")).status().message()),
              HasSubstr("not a JSON object"));
  EXPECT_THAT(
      std::string(ReadModelSizes(FolderWith(R"({"model_type": "bert"})")).status().message()),
      HasSubstr("model_type: bert is not supported"));
  EXPECT_THAT(
      std::string(ReadModelSizes(FolderWith(R"({"model_type": "llama", "hidden_size": -4})"))
                      .status()
                      .message()),
      HasSubstr("hidden_size: not a count"));
}

}  // namespace
}  // namespace strata::client
