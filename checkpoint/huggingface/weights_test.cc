#include "checkpoint/huggingface/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/huggingface/small_models_testing.h"
#include "checkpoint/huggingface/weights_index.h"
#include "checkpoint/testing.h"

namespace strata::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A file with these tensors, all zeros.
void WriteWeights(const std::string& path, const std::vector<StoredTensor>& tensors,
                  DType type = DType::kF32) {
  std::vector<SafetensorsEntry> entries;
  for (const StoredTensor& tensor : tensors) {
    entries.push_back({.name = tensor.name, .dtype = type, .shape = tensor.shape});
  }
  auto file = PosixFileSystem()->CreateFile(path);
  ASSERT_TRUE(file.ok());
  auto writer = SafetensorsWriter::Create(*std::move(file), entries, {});
  ASSERT_TRUE(writer.ok()) << writer.status();
  for (const SafetensorsEntry& entry : (*writer)->entries()) {
    const std::string zeros(static_cast<size_t>(entry.size_bytes), '\0');
    ASSERT_TRUE((*writer)->Append(zeros.data(), zeros.size()).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
}

std::vector<StoredTensor> Stored(const ModelTensors& model) {
  return StoredTensorsOf(model.spec, model.tensors);
}

absl::Status Open(const std::string& folder, const ModelTensors& model, Named named = Named::kAll) {
  return HuggingFaceWeights::Open(folder, model.spec, model.tensors, named).status();
}

std::string ErrorOf(const std::string& folder, const ModelTensors& model) {
  const absl::Status status = Open(folder, model);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(HuggingFaceWeights, OfOtherPrefixesAndWithBuffersAreTheModels) {
  const ModelTensors gpt2 = SmallGpt2();
  const TemporaryFolder bare;
  std::vector<StoredTensor> tensors = Stored(gpt2);
  for (StoredTensor& tensor : tensors) tensor.name = tensor.name.substr(12);  // "transformer."
  tensors.push_back({"h.0.attn.bias", {1, 1, 9, 9}, {}});
  tensors.push_back({"lm_head.weight", {7, 6}, {}});
  WriteWeights(bare.path() + "/model.safetensors", tensors);
  EXPECT_EQ(Open(bare.path(), gpt2), absl::OkStatus());

  const ModelTensors llama = SmallLlama();
  for (const char* form : {"old", "new"}) {
    const TemporaryFolder eyes;
    tensors = Stored(llama);
    for (StoredTensor& tensor : tensors) {
      const bool model = tensor.name.substr(0, 6) == "model.";
      tensor.name = std::string(form) == "new" && model
                        ? "model.language_model." + tensor.name.substr(6)
                    : std::string(form) == "new" ? tensor.name
                                                 : "language_model." + tensor.name;
    }
    tensors.push_back({"vision_tower.x", {2}, {}});
    WriteWeights(eyes.path() + "/model.safetensors", tensors);
    EXPECT_EQ(Open(eyes.path(), llama), absl::OkStatus()) << form;
  }
}

TEST(HuggingFaceWeights, ThatAreNotTheModelsAreNamedAllAtOnce) {
  const ModelTensors model = SmallLlama();
  const TemporaryFolder folder;
  std::vector<StoredTensor> tensors = Stored(model);
  tensors[0].shape = {8, 6};
  tensors.back().name = "score.weight";
  WriteWeights(folder.path() + "/model.safetensors", tensors);
  EXPECT_THAT(
      ErrorOf(folder.path(), model),
      AllOf(HasSubstr("model.embed_tokens.weight: has the shape [8, 6], config.json's has [7, 6]"),
            HasSubstr(": tensors are missing: lm_head.weight — "),
            HasSubstr("does not have: score.weight — ")));
}

TEST(HuggingFaceWeights, OfAStageMayBeSomeOfTheFiles) {
  ModelTensors model = SmallLlama();
  const TemporaryFolder folder;
  WriteWeights(folder.path() + "/model.safetensors", Stored(model));
  model.tensors.resize(2);
  EXPECT_EQ(Open(folder.path(), model, Named::kSome), absl::OkStatus());
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr("lm_head.weight"));
}

TEST(HuggingFaceWeights, OfOtherTypesOrFormsAreRefused) {
  const ModelTensors model = SmallLlama();
  const TemporaryFolder folder;
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr("no weights in it"));
  EXPECT_THAT(*WeightFiles(folder.path()), IsEmpty());
  WriteFile(folder.path() + "/pytorch_model.bin", "");
  EXPECT_THAT(std::string(WeightFiles(folder.path()).status().message()),
              HasSubstr("pickled weights are not read"));
  WriteWeights(folder.path() + "/model.safetensors", Stored(model), DType::kF64);
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr("has the type F64 — F32, BF16 and F16"));
  WriteFile(folder.path() + "/model.safetensors", "what is this");
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr("no valid safetensors file"));
  WriteFile(folder.path() + "/model.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr("as Git LFS leaves it"));
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr(" — download the file again"));
}

TEST(HuggingFaceWeights, OfTiedEmbeddingsMayHaveTheNameOfTheHead) {
  ModelTensors model = SmallGpt2();
  const TemporaryFolder folder;
  std::vector<StoredTensor> stored = Stored(model);
  std::find_if(stored.begin(), stored.end(), [](const StoredTensor& tensor) {
    return tensor.name == "transformer.wte.weight";
  })->name = "lm_head.weight";
  WriteWeights(folder.path() + "/model.safetensors", stored);
  EXPECT_EQ(Open(folder.path(), model), absl::OkStatus());
  model.spec.tied_embeddings = false;
  EXPECT_THAT(ErrorOf(folder.path(), model), HasSubstr("missing: transformer.wte.weight"));
}

// Two files and their index.
class SpreadWeights {
 public:
  SpreadWeights() {
    for (const StoredTensor& tensor : Stored(model)) {
      std::vector<StoredTensor>& part = tensor.shape.size() > 1 ? matrices_ : norms_;
      index.file_of[tensor.name] = tensor.shape.size() > 1 ? "a.safetensors" : "b.safetensors";
      part.push_back(tensor);
    }
    WriteWeights(folder.path() + "/a.safetensors", matrices_);
    WriteWeights(folder.path() + "/b.safetensors", norms_);
    WriteIndex(*FormatWeightsIndex(index));
  }
  void WriteIndex(const std::string& text) const {
    WriteFile(folder.path() + "/" + kIndexName, text);
  }
  std::string Error() const { return ErrorOf(folder.path(), model); }

  const ModelTensors model = SmallLlama();
  const TemporaryFolder folder;
  WeightsIndex index;

 private:
  std::vector<StoredTensor> matrices_, norms_;
};

TEST(HuggingFaceWeights, OfSeveralFilesMatchTheirIndex) {
  SpreadWeights spread;
  EXPECT_EQ(Open(spread.folder.path(), spread.model), absl::OkStatus());
  EXPECT_THAT(*WeightFiles(spread.folder.path()), ElementsAre("a.safetensors", "b.safetensors"));

  WeightsIndex wrong = spread.index;
  wrong.file_of["model.norm.weight"] = "a.safetensors";
  spread.WriteIndex(*FormatWeightsIndex(wrong));
  EXPECT_THAT(spread.Error(), HasSubstr("does not say that b.safetensors holds model.norm.weight"));
  wrong = spread.index;
  wrong.file_of["more"] = "a.safetensors";
  spread.WriteIndex(*FormatWeightsIndex(wrong));
  EXPECT_THAT(spread.Error(), HasSubstr("a.safetensors does not hold more"));
  wrong.file_of["more"] = "c.safetensors";
  spread.WriteIndex(*FormatWeightsIndex(wrong));
  EXPECT_THAT(spread.Error(), HasSubstr("c.safetensors is not there"));
}

TEST(ParseWeightsIndex, OfWhatIsNoIndexSaysWhy) {
  const auto error = [](const std::string& text) {
    return std::string(ParseWeightsIndex(text).status().message());
  };
  EXPECT_THAT(error("[]"), HasSubstr("a list where an object was expected"));
  EXPECT_THAT(error("3"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error("{"), HasSubstr("no valid JSON"));
  EXPECT_THAT(error("{}"), HasSubstr("weight_map: missing"));
  EXPECT_THAT(error(R"({"weight_map": 3})"), HasSubstr("weight_map: missing"));
  EXPECT_THAT(error(R"({"weight_map": {}})"), HasSubstr("weight_map: empty"));
  EXPECT_THAT(error(R"({"weight_map": {"a": "../x.safetensors"}})"),
              HasSubstr("is not the name of a .safetensors file in this directory"));
  EXPECT_THAT(error(R"({"weight_map": {"a": "x.bin"}})"), HasSubstr("is not the name of"));
  EXPECT_THAT(error(R"({"weight_map": {"a": 1}})"), HasSubstr("no file's name"));
  EXPECT_THAT(error(R"({"weight_map": {"a": {}}})"), HasSubstr("not a file's name"));
  EXPECT_THAT(error(R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})"),
              HasSubstr("tensor \"a\" twice"));
  EXPECT_THAT(error(R"({"weight_map": {"a": "x.safetensors"}, "weight_map": {}})"),
              HasSubstr("weight_map twice"));
  const auto index = ParseWeightsIndex(
      R"({"metadata": {"total_size": 12, "more": [1, {"weight_map": {}}]},
          "weight_map": {"a": "x.safetensors"}})");
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_EQ(index->total_bytes, 12);
  EXPECT_EQ(index->file_of.at("a"), "x.safetensors");
}

}  // namespace
}  // namespace strata::checkpoint
