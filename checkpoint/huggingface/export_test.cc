#include "checkpoint/huggingface/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "checkpoint/huggingface/small_models_testing.h"
#include "checkpoint/huggingface/weights.h"
#include "checkpoint/testing.h"

namespace strata::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ExportRequest RequestOf(const ModelTensors& model, StoredValues* source) {
  ExportRequest request;
  request.tensors = StoredTensorsOf(model.spec, model.tensors);
  request.source = source;
  request.config = "{}";
  return request;
}

TEST(ExportDirectory, WritesWhatIsReadBackByEveryRange) {
  for (const ModelTensors& model : {SmallLlama(), SmallGpt2(), SmallPhi3()}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      const TemporaryFolder folder;
      const std::string path = folder.path() + "/out";
      StoredValues source;
      ExportRequest request = RequestOf(model, &source);
      request.type = type;
      const auto exported = ExportDirectory(request, path);
      ASSERT_TRUE(exported.ok()) << exported.status();
      EXPECT_EQ(exported->files, 1);
      const auto weights = HuggingFaceWeights::Open(path, model.spec, model.tensors, Named::kAll);
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ((*weights)->type(), type == DType::kF32    ? "f32"
                                    : type == DType::kBF16 ? "bf16"
                                                           : "f16");
      ExpectSameRanges(model, **weights);
    }
  }
}

TEST(ExportDirectory, SpreadsLargeModelsOverFilesWithAnIndex) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/deep/out";
  const ModelTensors model = SmallGpt2();
  StoredValues source;
  ExportRequest request = RequestOf(model, &source);
  request.largest_file_bytes = 600;
  const auto exported = ExportDirectory(request, path);
  ASSERT_TRUE(exported.ok()) << exported.status();
  EXPECT_GT(exported->files, 2);
  const auto files = WeightFiles(path);
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_EQ(static_cast<int64_t>(files->size()), exported->files);
  const auto weights = HuggingFaceWeights::Open(path, model.spec, model.tensors, Named::kAll);
  ASSERT_TRUE(weights.ok()) << weights.status();
  ExpectSameRanges(model, **weights);
}

TEST(ExportDirectory, OverAFolderThatIsNotEmptyChangesNothing) {
  const TemporaryFolder folder;
  WriteFile(folder.path() + "/mine", "text");
  const ModelTensors model = SmallLlama();
  StoredValues source;
  const auto exported = ExportDirectory(RequestOf(model, &source), folder.path());
  EXPECT_TRUE(absl::IsAlreadyExists(exported.status()));
  EXPECT_THAT(std::string(exported.status().message()), HasSubstr("is not empty"));
  EXPECT_THAT(*PosixFileSystem()->List(folder.path()), ElementsAre("mine"));
}

TEST(ExportDirectory, AfterAnErrorLeavesNothingBehind) {
  const TemporaryFolder folder;
  const ModelTensors model = SmallLlama();
  StoredValues source;
  source.missing = model.tensors.back().name;
  const auto exported = ExportDirectory(RequestOf(model, &source), folder.path() + "/out");
  EXPECT_TRUE(absl::IsNotFound(exported.status())) << exported.status();
  EXPECT_THAT(*PosixFileSystem()->List(folder.path()), ElementsAre());
}

TEST(ExportDirectory, OfValuesBeyondTheTypeNamesTheTensor) {
  const TemporaryFolder folder;
  const ModelTensors model = SmallLlama();
  StoredValues source;
  source.scale = 1e6;
  ExportRequest request = RequestOf(model, &source);
  request.type = DType::kF16;
  const auto exported = ExportDirectory(request, folder.path() + "/out");
  EXPECT_TRUE(absl::IsInvalidArgument(exported.status()));
  EXPECT_THAT(std::string(exported.status().message()), HasSubstr("beyond F16"));
}

TEST(ExportDirectory, CopiesTheTokenizersFiles) {
  const TemporaryFolder folder;
  WriteFile(folder.path() + "/tokenizer.json", "{\"a\": 1}");
  WriteFile(folder.path() + "/generation_config.json", "{}");
  WriteFile(folder.path() + "/other.bin", "no");
  const ModelTensors model = SmallLlama();
  StoredValues source;
  ExportRequest request = RequestOf(model, &source);
  request.copies = TokenizerFilesIn(folder.path());
  request.types["lm_head.weight"] = DType::kBF16;
  const std::string path = folder.path() + "/out";
  ASSERT_TRUE(ExportDirectory(request, path).ok());
  EXPECT_THAT(*PosixFileSystem()->List(path), ElementsAre("config.json", "generation_config.json",
                                                          "model.safetensors", "tokenizer.json"));
  EXPECT_EQ(ReadFile(path + "/tokenizer.json"), "{\"a\": 1}");
  const auto file = SafetensorsReader::Open(path + "/model.safetensors");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->Find("lm_head.weight")->dtype, DType::kBF16);
  EXPECT_EQ((*file)->metadata().at("format"), "pt");
}

TEST(NarrowFromFloat, RoundsToTheNearestAndTiesToEven) {
  const std::vector<float> values = {1.0f,  -0.0f,    1.00390625f, 1.01171875f, 65504.0f,
                                     1e-7f, 0x1p-24f, 0x1p-25f,    0x1.8p-24f,  INFINITY};
  std::vector<uint16_t> brain(values.size()), half(values.size());
  EXPECT_TRUE(NarrowFromFloat(DType::kBF16, values.data(), 10, brain.data()));
  EXPECT_TRUE(NarrowFromFloat(DType::kF16, values.data(), 10, half.data()));
  // 1 + 1/256 lies between 1 and 1 + 1/128, 1 + 3/256 between 1 + 1/128 and 1 + 2/128.
  EXPECT_THAT(brain, ElementsAre(0x3f80, 0x8000, 0x3f80, 0x3f82, 0x4780, 0x33d7, 0x3380, 0x3300,
                                 0x33c0, 0x7f80));
  EXPECT_THAT(half, ElementsAre(0x3c00, 0x8000, 0x3c04, 0x3c0c, 0x7bff, 2, 1, 0, 2, 0x7c00));
  const float beyond = 65520, close = 65519;
  EXPECT_FALSE(NarrowFromFloat(DType::kF16, &beyond, 1, half.data()));
  EXPECT_TRUE(NarrowFromFloat(DType::kF16, &close, 1, half.data()));
  EXPECT_EQ(half[0], 0x7bff);
}

TEST(NarrowFromFloat, OfEveryHalfThatWasWidenedGivesItBack) {
  for (const DType type : {DType::kBF16, DType::kF16}) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto stored = static_cast<uint16_t>(bits);
      float wide = 0;
      uint16_t back = 0;
      ASSERT_TRUE(WidenToFloat(type, &stored, 1, &wide));
      if (std::isnan(wide)) continue;
      ASSERT_TRUE(NarrowFromFloat(type, &wide, 1, &back));
      ASSERT_EQ(back, stored);
    }
  }
}

}  // namespace
}  // namespace strata::checkpoint
