#include "client/model_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/huggingface/model_folder.h"
#include "checkpoint/huggingface/small_models_testing.h"

namespace strata::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(AddWeights, OfAFolderWithoutThemSaysOnlyWhereTheModelIsFrom) {
  const std::string path = checkpoint::ModelFolderWith(R"({"model_type": "llama"})");
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
