#include "client/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/huggingface/model_folder.h"

namespace strata::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string FolderWith(const std::string& config) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder = testing::TempDir() + "model_folder_" + test->name();
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/config.json") << config;
  return folder;
}

TEST(AddWeights, OfAFolderWithoutThemSaysOnlyWhereTheModelIsFrom) {
  const std::string path = FolderWith(R"({"model_type": "llama"})");
  v1::ModelSpec model = checkpoint::OpenModelFolder(path)->model;
  EXPECT_EQ(AddWeights(path, &model), absl::OkStatus());
  EXPECT_EQ(model.from(), path);
  EXPECT_FALSE(model.has_weights_type());
  EXPECT_THAT(model.weights(), ElementsAre());
  std::ofstream(path + "/model.safetensors") << "no";
  EXPECT_THAT(std::string(AddWeights(path, &model).message()),
              HasSubstr("no valid safetensors file"));
}

}  // namespace
}  // namespace strata::client
