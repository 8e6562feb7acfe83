#include "data/tokenizer/tokenizer.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "common/random.h"
#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string TestData(const std::string& name) {
  return Slurp("data/tokenizer/testdata/" + name + "/tokenizer.json");
}

// A tokenizer of a, b, ab and abab, without any cutting.
Json Small() {
  return Json::parse(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
      "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 3},
                "merges": ["a b", ["ab", "ab"]]}})");
}

class TokenizerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const Tokenizer>> Load(const std::string& text) {
    folder_.Write("tokenizer.json", text);
    return Tokenizer::Load(folder_.Path("."));
  }
  absl::Status Refused(const std::string& text) { return Load(text).status(); }
  std::shared_ptr<const Tokenizer> Loaded(const Json& json) {
    auto tokenizer = Load(json.dump());
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
    return tokenizer.ok() ? *tokenizer : Tokenizer::Bytes();
  }
  const TemporaryFolder folder_;
};

std::vector<int32_t> Encode(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<int32_t> ids;
  const absl::Status status = tokenizer.Encode(text, &ids);
  EXPECT_TRUE(status.ok()) << status;
  return ids;
}

TEST(BytesTest, Encode_AnyBytes_AreTheirValues) {
  const auto tokenizer = Tokenizer::Bytes();
  EXPECT_THAT(Encode(*tokenizer, "a\xFF"), ElementsAre('a', 255));
  EXPECT_EQ(tokenizer->vocabulary(), 256);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{0xC3, 0xA9, 0xFF, 300, -1}, true), "é\uFFFD");
  EXPECT_EQ(tokenizer->Find("a"), 'a');
  EXPECT_EQ(tokenizer->Find("ab"), std::nullopt);
  EXPECT_EQ(tokenizer->Text(255), "\xFF");
  EXPECT_EQ(tokenizer->Text(256), "");
  EXPECT_EQ(tokenizer->end_of_text(), std::nullopt);
  EXPECT_THAT(tokenizer->end_of_generation(), ElementsAre());
}

TEST(BytesTest, Stream_HalfACharacter_IsHeldBack) {
  StreamDecoder decoder(Tokenizer::Bytes(), true);
  EXPECT_EQ(decoder.Add('a'), "a");
  EXPECT_EQ(decoder.Add(0xE6), "");
  EXPECT_EQ(decoder.Add(0x9D), "");
  EXPECT_EQ(decoder.Add(0xB1), "東");
  EXPECT_EQ(decoder.Add(0xF0), "");
  EXPECT_EQ(decoder.Finish(), "\uFFFD");
}

TEST_F(TokenizerTest, Encode_SmallVocabulary_Merges) {
  const auto tokenizer = Loaded(Small());
  EXPECT_THAT(Encode(*tokenizer, "aababab"), ElementsAre(0, 3, 2));
  EXPECT_THAT(Encode(*tokenizer, ""), ElementsAre());
  EXPECT_EQ(tokenizer->vocabulary(), 4);
  EXPECT_EQ(tokenizer->Text(3), "abab");
  EXPECT_EQ(tokenizer->Find("ab"), 2);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{0, 3, 99}, false), "aabab");
}

TEST_F(TokenizerTest, Encode_NotUtf8_IsRefusedAndAppendsNothing) {
  const auto tokenizer = Loaded(Small());
  std::vector<int32_t> ids = {7};
  const absl::Status status = tokenizer->Encode("aab\xFF", &ids);
  EXPECT_EQ(status.message(), "the text is not UTF-8 at byte 3");
  EXPECT_THAT(ids, ElementsAre(7));
}

TEST_F(TokenizerTest, Encode_UnkTokenThatIsNotInTheVocabulary_IsToldWhenItIsNeeded) {
  Json json = Small();
  json["model"]["unk_token"] = "<unk>";
  const auto tokenizer = Loaded(json);
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(2));
  std::vector<int32_t> ids;
  EXPECT_THAT(std::string(tokenizer->Encode("abc", &ids).message()), HasSubstr("\"<unk>\""));
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(2));
}

TEST_F(TokenizerTest, Encode_MegabytesWithoutASpace_TakesNoQuadraticTime) {
  const auto words = Load(TestData("llama2"));
  const auto bytes = Load(TestData("llama3"));
  ASSERT_TRUE(words.ok() && bytes.ok());
  std::string text;
  while (text.size() < (2 << 20)) text += "abstraction東京";
  for (const auto& tokenizer : {*words, *bytes}) {
    EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, text), false), text);
    const std::string spaces(1 << 20, ' ');
    EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, spaces), false), spaces);
  }
}

TEST_F(TokenizerTest, AddedTokens_OfTheFile_AreFoundInText) {
  Json json = Small();
  json["added_tokens"] = {{{"id", 4}, {"content", "<x>"}, {"special", true}, {"normalized", false}},
                          {{"id", 5}, {"content", "<x>>"}, {"normalized", false}},
                          {{"id", 0}, {"content", "a"}, {"normalized", false}}};
  const auto tokenizer = Loaded(json);
  EXPECT_THAT(Encode(*tokenizer, "b<x>b<x>>ab"), ElementsAre(1, 4, 1, 5, 0, 1));
  EXPECT_EQ(tokenizer->vocabulary(), 6);
  EXPECT_TRUE(tokenizer->IsSpecial(4));
  EXPECT_FALSE(tokenizer->IsSpecial(5));
  EXPECT_EQ(tokenizer->Find("<x>>"), 5);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{1, 4, 5}, true), "b<x>>");
}

TEST_F(TokenizerTest, AddedTokens_ThatTakeSpace_TakeItOnce) {
  Json json = Small();
  json["added_tokens"] = {{{"content", " "}, {"lstrip", true}, {"rstrip", true}},
                          {{"content", "x"}, {"rstrip", true}},
                          {{"content", "\n"}}};
  for (Json& token : json["added_tokens"]) token["normalized"] = false;
  const auto tokenizer = Loaded(json);
  EXPECT_THAT(Encode(*tokenizer, "a   b"), ElementsAre(0, 4, 1));
  EXPECT_THAT(Encode(*tokenizer, "x  a"), ElementsAre(5, 0));
  EXPECT_THAT(Encode(*tokenizer, "x\na"), ElementsAre(5, 6, 0));
}

TEST_F(TokenizerTest, Load_WhatIsNotSupported_IsRefusedByItsName) {
  const auto refused = [&](const std::string& path, const Json& value) {
    Json json = Small();
    json[Json::json_pointer(path)] = value;
    const absl::Status status = Refused(json.dump());
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(std::string(status.message()), StartsWith(folder_.Path("./tokenizer.json: ")));
    return std::string(status.message());
  };
  EXPECT_THAT(refused("/model/type", "Unigram"), HasSubstr("model Unigram is not supported"));
  EXPECT_THAT(refused("/model/dropout", 0.1), HasSubstr("dropout"));
  EXPECT_THAT(refused("/model/novel", 1), HasSubstr("\"novel\""));
  EXPECT_THAT(refused("/version", "2.0"), HasSubstr("version 2.0"));
  EXPECT_THAT(refused("/normalizer", {{"type", "Nmt"}}), HasSubstr("normalizer Nmt"));
  EXPECT_THAT(refused("/pre_tokenizer", {{"type", "UnicodeScripts"}}),
              HasSubstr("pre_tokenizer UnicodeScripts"));
  EXPECT_THAT(refused("/decoder", {{"type", "CTC"}}), HasSubstr("decoder CTC"));
  EXPECT_THAT(refused("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "^a"}}}}),
              HasSubstr("anchor ^"));
}

TEST_F(TokenizerTest, Load_WhatWouldMakeTextsVeryLong_IsRefused) {
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const Json bytes = {{"type", "ByteLevel"}};
  Json json = Small();
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::vector<Json>(10, twice)}};
  EXPECT_THAT(std::string(Refused(json.dump()).message()), HasSubstr("times longer"));
  json = Small();
  json["decoder"] = {{"type", "Sequence"}, {"decoders", std::vector<Json>(10, twice)}};
  EXPECT_THAT(std::string(Refused(json.dump()).message()), HasSubstr("times longer"));
  json = Small();
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", std::vector<Json>(2, bytes)}};
  EXPECT_THAT(std::string(Refused(json.dump()).message()), HasSubstr("ByteLevel after ByteLevel"));
}

TEST_F(TokenizerTest, Load_Damaged_SaysWhatIsWrong) {
  const auto damaged = [&](const std::string& path, const Json& value) {
    Json json = Small();
    json[Json::json_pointer(path)] = value;
    const absl::Status status = Refused(json.dump());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(damaged("/model/merges", {"a c"}), HasSubstr("merge 0 of \"a\" and \"c\""));
  EXPECT_THAT(damaged("/model/merges", {"b a"}), HasSubstr("what they make is not"));
  EXPECT_THAT(damaged("/model/merges", {"a b c"}), HasSubstr("model.merges: a merge that is not"));
  EXPECT_THAT(damaged("/model/merges", Json::array({Json::array({"a"})})),
              HasSubstr("not of two texts"));
  EXPECT_THAT(damaged("/model/vocab/c", 2), HasSubstr("have the same id 2"));
  EXPECT_THAT(damaged("/model/vocab/c", -1), HasSubstr("not a count"));
  EXPECT_THAT(damaged("/model/vocab/c", 4e9), HasSubstr("not a count"));
  EXPECT_THAT(damaged("/model/vocab/c", uint64_t{1} << 62), HasSubstr("not one of 0 to"));
  EXPECT_THAT(damaged("/model/vocab", Json::object()), HasSubstr("no tokens"));
  EXPECT_THAT(damaged("/model", nullptr), HasSubstr("no \"model\""));
  EXPECT_THAT(damaged("/added_tokens", {{{"content", "x"}}, {{"content", "x"}}}),
              HasSubstr("added token \"x\" is there twice"));
  EXPECT_THAT(damaged("/model/fuse_unk", "yes"), HasSubstr("\"fuse_unk\" is not true or false"));
  EXPECT_THAT(std::string(Refused("{\"model\": {\"vocab\": {\"a\": 0, \"a\": 1}}}").message()),
              HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(std::string(Refused("{\"x\": 1, \"x\": 2}").message()), HasSubstr("x: this key"));
  EXPECT_THAT(std::string(Refused("{").message()), HasSubstr("not JSON"));
  EXPECT_THAT(std::string(Refused(std::string(100000, '[')).message()), HasSubstr("too deep"));
}

TEST_F(TokenizerTest, Load_NoFile_SaysWhatIsLookedFor) {
  EXPECT_TRUE(absl::IsNotFound(Tokenizer::Load(folder_.Path("nowhere")).status()));
  const absl::Status status = Tokenizer::Load(folder_.Path(".")).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no tokenizer.json"));
  mkfifo(folder_.Path("tokenizer.json").c_str(), 0644);
  EXPECT_THAT(std::string(Tokenizer::Load(folder_.Path(".")).status().message()),
              HasSubstr("not a regular file"));
}

TEST_F(TokenizerTest, Load_PathOfTheFile_LooksAtTheFilesBesideIt) {
  folder_.Write("tokenizer_config.json", R"({"eos_token": "b"})");
  const auto tokenizer = Tokenizer::Load(folder_.Write("tokenizer.json", Small().dump()));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->end_of_text(), 1);
}

TEST_F(TokenizerTest, Load_Gpt2Files_GivesTheSameAsItsTokenizerJson) {
  const Json json = Json::parse(TestData("gpt2"));
  std::string merges = "#version: 0.2\n";
  for (const std::string merge : json["model"]["merges"]) merges += merge + "\n";
  Json vocabulary = json["model"]["vocab"];
  vocabulary["<|endoftext|>"] = vocabulary.size();
  for (const auto& [first, second] :
       {std::pair("encoder.json", "vocab.bpe"), std::pair("vocab.json", "merges.txt")}) {
    const TemporaryFolder folder;
    folder.Write(first, vocabulary.dump());
    folder.Write(second, merges);
    const auto tokenizer = Tokenizer::Load(folder.Path("."));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const std::string text = "The training's data,  naïve 東京\n\n<|endoftext|> x";
    EXPECT_EQ(Encode(**tokenizer, text), Encode(*Loaded(json), text));
    EXPECT_EQ((*tokenizer)->end_of_text(), (*tokenizer)->Find("<|endoftext|>"));
    folder.Write("tokenizer_config.json", R"({"tokenizer_class": "Qwen2Tokenizer"})");
    EXPECT_TRUE(absl::IsUnimplemented(Tokenizer::Load(folder.Path(".")).status()));
  }
}

// The roles of tokens, with these added ones and a tokenizer_config.json.
class RolesTest : public TokenizerTest {
 protected:
  std::shared_ptr<const Tokenizer> With(const std::vector<std::string>& added,
                                        const std::string& config) {
    Json json = Small();
    int id = 4;
    for (const std::string& content : added) {
      json["added_tokens"].push_back({{"id", id++}, {"content", content}, {"special", true}});
    }
    folder_.Write("tokenizer_config.json", config);
    return Loaded(json);
  }
};

TEST_F(RolesTest, EndOfText_OfBaseAndChatModels_IsWhatDocumentsEndWith) {
  const auto end = [&](const std::vector<std::string>& added, const std::string& eos) {
    const auto tokenizer = With(added, Json{{"eos_token", eos}}.dump());
    const auto id = tokenizer->end_of_text();
    return id.has_value() ? std::string(tokenizer->Text(*id)) : "none";
  };
  EXPECT_EQ(end({"<|endoftext|>", "<|im_start|>", "<|im_end|>"}, "<|im_end|>"), "<|endoftext|>");
  EXPECT_EQ(end({"<|end_of_text|>", "<|eot_id|>"}, "<|eot_id|>"), "<|end_of_text|>");
  EXPECT_EQ(end({"</s>", "<|endoftext|>"}, "</s>"), "</s>");
  // Gemma's: its other one is HTML's.
  EXPECT_EQ(end({"<eos>", "</s>", "<end_of_turn>"}, "<end_of_turn>"), "<eos>");
  EXPECT_EQ(end({"<stop>"}, "<stop>"), "<stop>");
  EXPECT_EQ(end({}, "<stop>"), "none");
}

TEST_F(RolesTest, EndOfGeneration_OfConfigurations_IsAllOfThem) {
  const std::string config = R"({"eos_token": {"content": "<|im_end|>"}, "bos_token": null})";
  const auto tokenizer = With({"<|endoftext|>", "<|im_end|>"}, config);
  EXPECT_EQ(tokenizer->eos_token(), "<|im_end|>");
  EXPECT_EQ(tokenizer->bos_token(), "");
  EXPECT_THAT(tokenizer->end_of_generation(), ElementsAre(4, 5));
  folder_.Write("config.json", R"({"eos_token_id": 1})");
  EXPECT_THAT(With({"<|endoftext|>"}, "{}")->end_of_generation(), ElementsAre(1, 4));
  folder_.Write("generation_config.json", R"({"eos_token_id": [2, 3]})");
  EXPECT_THAT(With({"<|endoftext|>", "<|eot_id|>"}, "{}")->end_of_generation(),
              ElementsAre(2, 3, 4));
}

TEST_F(TokenizerTest, TextStart_OfAPostProcessorsTemplate_IsWhatStandsBeforeTheText) {
  Json json = Small();
  EXPECT_THAT(Loaded(json)->text_start(), ElementsAre());
  const Json one = Json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "ab", "type_id": 0}}, {"Sequence": {"id": "A"}},
                 {"SpecialToken": {"id": "b", "type_id": 0}}],
      "special_tokens": {"ab": {"id": "ab", "ids": [2, 0], "tokens": ["ab", "a"]},
                         "b": {"id": "b", "ids": [1], "tokens": ["b"]}}})");
  json["post_processor"] = one;
  EXPECT_THAT(Loaded(json)->text_start(), ElementsAre(2, 0));
  EXPECT_THAT(Encode(*Loaded(json), "ba"), ElementsAre(1, 0));
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, one}}};
  EXPECT_THAT(Loaded(json)->text_start(), ElementsAre(2, 0));
  json["post_processor"] = one;
  json["post_processor"]["special_tokens"]["ab"]["ids"] = {-1};
  EXPECT_THAT(std::string(Refused(json.dump()).message()),
              HasSubstr("post_processor: \"ab\" has an id that is none"));
}

TEST_F(RolesTest, ChatTemplate_InEachPlace_IsFound) {
  EXPECT_EQ(With({}, "{}")->chat_template(), "");
  EXPECT_EQ(With({}, R"({"chat_template": "{{x}}"})")->chat_template(), "{{x}}");
  EXPECT_EQ(With({}, R"({"chat_template": [{"name": "tool", "template": "t"},
                                           {"name": "default", "template": "d"}]})")
                ->chat_template(),
            "d");
  folder_.Write("chat_template.jinja", "{{y}}");
  EXPECT_EQ(With({}, R"({"chat_template": "{{x}}"})")->chat_template(), "{{y}}");
}

TEST_F(TokenizerTest, Load_FilesWithRandomDamage_NeverCrashes) {
  common::Random random(5);
  for (const char* name : {"gpt2", "llama2", "words", "general"}) {
    const std::string whole = TestData(name);
    for (int i = 0; i < 60; ++i) {
      std::string text = whole;
      for (uint64_t changes = 1 + random.Next() % 3; changes > 0; --changes) {
        const size_t at = random.Below(text.size());
        const size_t size = 1 + random.Below<size_t>(20);
        switch (random.Next() % 3) {
          case 0:
            text[at] = static_cast<char>(random.Next());
            break;
          case 1:
            text.erase(at, size);
            break;
          default:
            text.insert(at, text.substr(random.Below(text.size()), size));
        }
      }
      const auto tokenizer = Load(text);
      if (!tokenizer.ok()) continue;
      std::vector<int32_t> ids;
      if ((*tokenizer)->Encode("The model's 東京 <|endoftext|> <end> 123\n", &ids).ok()) {
        (*tokenizer)->Decode(ids, true);
      }
    }
  }
}

TEST(ThreadsTest, Encode_ManyThreadsAtOnce_GivesWhatOneGives) {
  const auto loaded = Tokenizer::Load("data/tokenizer/testdata/qwen2");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Tokenizer& tokenizer = **loaded;
  std::vector<std::string> texts;
  for (int i = 0; i < 50; ++i) {
    texts.push_back("The data " + std::to_string(i) + " café of model's x" + std::to_string(i * i));
  }
  std::vector<std::vector<int32_t>> expected;
  for (const std::string& text : texts) expected.push_back(Encode(tokenizer, text));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 4 * texts.size(); ++i) {
        const size_t which = (i * (t + 1)) % texts.size();
        EXPECT_EQ(Encode(tokenizer, texts[which]), expected[which]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace strata::data
