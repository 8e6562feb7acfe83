#include "data/prepare/samples.h"

#include "common/clock.h"
#include "data/prepare/test_tokenizers.h"
#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::HasSubstr;

constexpr char kChats[] =
    R"({"messages": [{"role": "user", "content": "the x"}, {"role": "assistant", "content": "é"}]}
{"text": "plain"}
)";

// Spans as `strata data show` prints them.
std::string Shown(const Sample& sample) {
  std::string text;
  for (const SampleSpan& span : sample.spans) {
    text += span.trained ? "[" + span.text + "]" : span.text;
  }
  return text;
}

class SamplesTest : public ::testing::Test {
 protected:
  SampleSet Read(const std::string& path, int64_t sequence = 0, int64_t samples = 10) {
    SampleOptions options;
    options.input.path = path;
    options.tokenizer = tokenizer_;
    options.sequence = sequence;
    options.samples = samples;
    auto set = ReadSamples(options);
    EXPECT_TRUE(set.ok()) << set.status();
    return set.ok() ? *std::move(set) : SampleSet();
  }
  std::string Prepared(const std::string& name, TokenFormat format, const std::string& records) {
    PrepareOptions options;
    options.inputs = {{folder_.Write("in.jsonl", records)}};
    options.output = folder_.Path(name);
    options.format = format;
    options.tokenizer = tokenizer_;
    const auto report = PrepareData(options, {}, common::MonotonicClock());
    EXPECT_TRUE(report.ok()) << report.status();
    return report->path;
  }
  const TemporaryFolder folder_;
  std::string tokenizer_ = WriteTestTokenizer(folder_.Path("tokenizer"), TestSplit::kLlama3);
};

constexpr char kFirst[] =
    "<|im_start|>user\nthe x<|im_end|>\n<|im_start|>assistant\n[é<|im_end|>]\n";

TEST_F(SamplesTest, OfPreparedChats_ShowDocumentsAndWhatIsTrained) {
  const SampleSet set = Read(Prepared("out.bin", TokenFormat::kLlmq, kChats));
  EXPECT_STREQ(set.unit, "document");
  EXPECT_EQ(set.total, 2);
  ASSERT_EQ(set.samples.size(), 2u);
  EXPECT_EQ(Shown(set.samples[0]), kFirst);
  EXPECT_EQ(set.samples[0].trained, 3);
  EXPECT_EQ(Shown(set.samples[1]), "[plain<|endoftext|>]");
  EXPECT_EQ(set.trained, 9);
  EXPECT_EQ(set.tokens, set.samples[0].tokens + set.samples[1].tokens);
}

TEST_F(SamplesTest, OfJsonLines_AreThoseOfThePreparedFile) {
  const SampleSet set = Read(folder_.Write("c.jsonl", kChats));
  EXPECT_STREQ(set.unit, "record");
  ASSERT_EQ(set.samples.size(), 2u);
  EXPECT_EQ(Shown(set.samples[0]), kFirst);
  EXPECT_EQ(set.samples[1].index, 2);
  EXPECT_EQ(Read(folder_.Path("c.jsonl"), 0, 1).samples.size(), 1u);
}

TEST_F(SamplesTest, OfEveryFormat_AreDecoded) {
  for (const auto format : {TokenFormat::kU16, TokenFormat::kLlmc, TokenFormat::kMegatron}) {
    const SampleSet set =
        Read(Prepared("o.bin", format, "{\"text\": \"the\"}\n{\"text\": \"b\"}\n"));
    ASSERT_EQ(set.samples.size(), 2u);
    EXPECT_EQ(Shown(set.samples[0]), "[the<|endoftext|>]");
    EXPECT_EQ(set.trained, set.tokens);
  }
}

TEST_F(SamplesTest, OfWindows_AreSpreadOverTheFile) {
  const std::string path = Prepared("o.bin", TokenFormat::kLlmq, "{\"text\": \"abcdefghij\"}\n");
  const SampleSet set = Read(path, 4, 2);
  EXPECT_STREQ(set.unit, "window");
  EXPECT_EQ(set.total, 3);
  ASSERT_EQ(set.samples.size(), 2u);
  EXPECT_EQ(Shown(set.samples[0]), "[abcd]");
  EXPECT_EQ(Shown(set.samples[1]), "[efgh]");
  EXPECT_EQ(set.samples[1].begin, 4);
}

TEST_F(SamplesTest, WithoutATokenizer_BytesAreTextAndOthersNumbers) {
  const std::string path = Prepared("o.bin", TokenFormat::kLlmq, "{\"text\": \"ab\"}\n");
  tokenizer_.clear();
  const SampleSet numbers = Read(path);
  EXPECT_FALSE(numbers.decoded);
  EXPECT_EQ(Shown(numbers.samples[0]), "[97 98 264]");
  const SampleSet bytes = Read(folder_.Write("t.txt", "some text"));
  EXPECT_EQ(Shown(bytes.samples[0]), "[some text]");
}

TEST_F(SamplesTest, OfABadRecord_NamesItsLine) {
  SampleOptions options;
  options.input.path = folder_.Write("bad.jsonl", "\n{\"text\": 7}\n");
  EXPECT_THAT(std::string(ReadSamples(options).status().message()), HasSubstr("bad.jsonl:2: "));
}

}  // namespace
}  // namespace strata::data
