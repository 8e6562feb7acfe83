#include "checkpoint/huggingface/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/huggingface/small_models_testing.h"

namespace strata::checkpoint {
namespace {

using testing::HasSubstr;

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
  const auto error = [](const std::string& path) {
    return std::string(OpenModelFolder(path).status().message());
  };
  EXPECT_EQ(error("/nowhere"),
            "/nowhere/config.json: is not there — name a Hugging Face directory, as "
            "save_pretrained writes it");
  const std::string torn = ModelFolderWith("{\"model_type\": ");
  EXPECT_EQ(error(torn), torn + "/config.json: not valid JSON — download the directory again");
  std::filesystem::remove(torn + "/config.json");
  std::ofstream(torn + "/adapter_config.json") << "{}";
  EXPECT_THAT(error(torn),
              HasSubstr("is an adapter's: name its base model, and it with model.adapter"));
  EXPECT_THAT(
      std::string(OpenModelFolder(ModelFolderWith(R"({"model_type": "bert"})")).status().message()),
      HasSubstr("model_type: \"bert\" is not supported"));
  EXPECT_THAT(std::string(OpenModelFolder(ModelFolderWith(R"({"model_type": "llama",
                              "num_attention_heads": 4, "num_key_value_heads": 3})"))
                              .status()
                              .message()),
              HasSubstr("config.json: model.kv_heads: 3 does not divide heads"));
}

TEST(CheckTokenizerForm, RefusesFoldersWhoseTokenizerIsNotRead) {
  const std::string path = ModelFolderWith("{}");
  EXPECT_EQ(CheckTokenizerForm(path), absl::OkStatus());
  std::ofstream(path + "/tokenizer.model") << "pieces";
  EXPECT_THAT(std::string(CheckTokenizerForm(path).message()),
              HasSubstr(path + "/tokenizer.model: text is read by tokenizer.json, which is not "));
  std::ofstream(path + "/tokenizer.json") << "{}";
  EXPECT_EQ(CheckTokenizerForm(path), absl::OkStatus());
}

}  // namespace
}  // namespace strata::checkpoint
