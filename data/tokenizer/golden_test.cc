// Ids and texts that Hugging Face's `tokenizers` made: tests/parity/make_tokenizer_goldens.py.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

constexpr char kFolder[] = "data/tokenizer/testdata/";

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  GoldenTest() {
    std::ifstream(std::string(kFolder) + GetParam() + ".json") >> goldens_;
    auto loaded = Tokenizer::Load(std::string(kFolder) + GetParam());
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (loaded.ok()) tokenizer_ = *std::move(loaded);
  }

  std::vector<int32_t> Encode(const std::string& text) const {
    std::vector<int32_t> ids;
    const absl::Status status = tokenizer_->Encode(text, &ids);
    EXPECT_TRUE(status.ok()) << status;
    return ids;
  }

  nlohmann::json goldens_;
  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_P(GoldenTest, Encode_StoredTexts_GivesTheStoredIds) {
  ASSERT_NE(tokenizer_, nullptr);
  ASSERT_GE(goldens_.size(), 100);
  for (const auto& golden : goldens_) {
    const std::string text = golden["text"];
    EXPECT_EQ(Encode(text), golden["ids"].get<std::vector<int32_t>>()) << text;
  }
}

TEST_P(GoldenTest, Encode_TheSameTextAgain_GivesTheSameIdsFromTheCache) {
  ASSERT_NE(tokenizer_, nullptr);
  for (const auto& golden : goldens_) {
    const std::string text = golden["text"];
    EXPECT_EQ(Encode(text), Encode(text));
  }
}

TEST_P(GoldenTest, Decode_StoredIds_GivesTheStoredTexts) {
  ASSERT_NE(tokenizer_, nullptr);
  for (const auto& golden : goldens_) {
    const std::vector<int32_t> ids = golden["ids"];
    EXPECT_EQ(tokenizer_->Decode(ids, false), golden["decoded"].get<std::string>());
    EXPECT_EQ(tokenizer_->Decode(ids, true), golden["without_special"].get<std::string>());
  }
}

TEST_P(GoldenTest, Stream_StoredIds_GivesTheStoredTextsInPiecesOfUtf8) {
  ASSERT_NE(tokenizer_, nullptr);
  for (const auto& golden : goldens_) {
    StreamDecoder decoder(tokenizer_, true);
    std::string text;
    const auto add = [&](const std::string& piece) {
      // dump() throws where a text is not UTF-8.
      EXPECT_NO_THROW(nlohmann::json(piece).dump()) << text;
      text += piece;
    };
    for (const int32_t id : golden["ids"]) add(decoder.Add(id));
    add(decoder.Finish());
    EXPECT_EQ(text, golden["without_special"].get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenTest,
                         ::testing::Values("gpt2", "llama3", "qwen2", "general", "deepseek",
                                           "llama2", "gemma", "mistral", "words", "metaspace",
                                           "partial"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace strata::data
