#include "checkpoint/huggingface/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace strata::checkpoint {
namespace {

using testing::HasSubstr;

std::string ModelFolderWith(const std::string& config) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "model_folder_" + test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

TEST(OpenModelFolder, TellsTheModelAndWhetherThereIsATokenizer) {
  const std::string path =
      ModelFolderWith(R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})");
  auto folder = OpenModelFolder(path);
  ASSERT_TRUE(folder.ok()) << folder.status();
  EXPECT_EQ(folder->model.head_size(), 16);
  EXPECT_FALSE(folder->has_tokenizer);
  std::ofstream(path + "/tokenizer.json") << "{}";
  EXPECT_TRUE(OpenModelFolder(path)->has_tokenizer);
  const auto job = JobOfModelFolder(path);
  ASSERT_TRUE(job.ok());
  EXPECT_EQ(job->data().tokenizer(), path);
  EXPECT_EQ(job->model().from(), path);
}

TEST(OpenModelFolder, OfWhatIsNoModelNamesTheFileAndTheKey) {
  EXPECT_THAT(std::string(OpenModelFolder("/nowhere").status().message()),
              HasSubstr("/nowhere/config.json: "));
  EXPECT_THAT(
      std::string(OpenModelFolder(ModelFolderWith(R"({"model_type": "bert"})")).status().message()),
      HasSubstr("model_type: \"bert\" is not supported"));
  EXPECT_THAT(std::string(OpenModelFolder(ModelFolderWith(R"({"model_type": "llama",
                              "num_attention_heads": 4, "num_key_value_heads": 3})"))
                              .status()
                              .message()),
              HasSubstr("config.json: model.kv_heads: 3 does not divide heads"));
}

}  // namespace
}  // namespace strata::checkpoint
