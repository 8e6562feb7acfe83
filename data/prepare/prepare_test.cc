#include "data/prepare/prepare.h"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/rng.h"
#include "data/prepare/test_tokenizers.h"
#include "data/testing.h"
#include "data/token_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string ContentOf(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// Tokens, those that are no target negative (-1 - token).
std::vector<int32_t> TokensOf(const std::string& path) {
  const auto source = OpenTokenSource(path);
  EXPECT_TRUE(source.ok()) << source.status();
  if (!source.ok()) return {};
  std::vector<int32_t> tokens(static_cast<size_t>((*source)->tokens()));
  EXPECT_TRUE((*source)->Read(0, (*source)->tokens(), tokens.data()).ok());
  std::vector<int32_t> targets(tokens.size(), 0);
  EXPECT_TRUE((*source)->MaskTargets(0, (*source)->tokens(), targets.data()).ok());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (targets[i] < 0) tokens[i] = -1 - tokens[i];
  }
  return tokens;
}

std::vector<int64_t> EndsOf(const std::string& path) {
  const auto ends = (*OpenTokenSource(path))->DocumentEnds();
  EXPECT_TRUE(ends.ok()) << ends.status();
  return ends.ok() ? *ends : std::vector<int64_t>();
}

// Records of all lengths, deterministic.
std::string ManyRecords(int count, uint64_t key) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const size_t length = 1 + common::MixBits(key, i) % 700;
    std::string text;
    while (text.size() < length) text += std::to_string(common::MixBits(i, text.size())) + " the ";
    lines += "{\"text\": \"" + text + "\"}\n";
  }
  return lines;
}

class PrepareTest : public ::testing::Test {
 protected:
  PrepareOptions Options(const std::vector<std::string>& inputs) const {
    PrepareOptions options;
    for (const std::string& input : inputs) options.inputs.push_back({input});
    options.output = folder_.Path("out.bin");
    options.threads = 2;
    return options;
  }
  absl::StatusOr<PrepareReport> Run(const PrepareOptions& options) {
    PrepareEvents events;
    events.notice = [this](const std::string& text) { notices_.push_back(text); };
    return PrepareData(options, events, clock_);
  }
  PrepareReport RunGood(const PrepareOptions& options) {
    const auto report = Run(options);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *report : PrepareReport();
  }
  std::string WhyNot(const PrepareOptions& options) {
    const auto report = Run(options);
    EXPECT_FALSE(report.ok());
    EXPECT_FALSE(std::filesystem::exists(options.output));
    return std::string(report.status().message());
  }
  std::string TokenizerFolder() const {
    return WriteTestTokenizer(folder_.Path("tokenizer"), TestSplit::kLlama3);
  }
  const TemporaryFolder folder_;
  const common::MonotonicClock clock_;
  std::vector<std::string> notices_;
};

TEST_F(PrepareTest, Text_WithoutATokenizer_TokensAreBytes) {
  const PrepareReport report = RunGood(Options({folder_.Write("t.txt", "He\xff\n")}));
  EXPECT_EQ(report.path, folder_.Path("out.bin"));
  EXPECT_EQ(report.documents, 1);
  EXPECT_EQ(report.tokens, 4);
  EXPECT_EQ(report.trained, 4);
  EXPECT_EQ(report.longest, 4);
  EXPECT_EQ(report.input_bytes, 4);
  EXPECT_THAT(TokensOf(report.path), ElementsAre('H', 'e', 255, '\n'));
  EXPECT_EQ((*OpenTokenSource(report.path))->vocabulary(), 256);
}

TEST_F(PrepareTest, Documents_OfTextAndRecords_EndWithTheEndOfText) {
  PrepareOptions options =
      Options({folder_.Write("a.txt", "the a"),
               folder_.Write("b.jsonl", "{\"text\": \"b\"}\n{\"text\": \"cd\"}")});
  options.tokenizer = TokenizerFolder();
  const PrepareReport report = RunGood(options);
  EXPECT_THAT(TokensOf(report.path), ElementsAre(257, ' ', 'a', kTestEndOfText, 'b', kTestEndOfText,
                                                 'c', 'd', kTestEndOfText));
  EXPECT_THAT(EndsOf(report.path), ElementsAre(4, 6, 9));
  EXPECT_EQ((*OpenTokenSource(report.path))->vocabulary(), kTestVocabulary);
}

TEST_F(PrepareTest, Chat_OfTwoTurns_TrainsTheAnswerAndItsEnd) {
  PrepareOptions options =
      Options({folder_.Write("c.jsonl", R"({"messages": [{"role": "user", "content": "x"},)"
                                        R"( {"role": "assistant", "content": "y"}]})")});
  options.tokenizer = TokenizerFolder();
  const PrepareReport report = RunGood(options);
  EXPECT_EQ(report.trained, 2);
  const std::vector<int32_t> tokens = TokensOf(report.path);
  std::vector<int32_t> trained;
  for (const int32_t token : tokens) {
    if (token >= 0) trained.push_back(token);
  }
  EXPECT_THAT(trained, ElementsAre('y', 266));
  EXPECT_EQ(tokens.back(), -1 - '\n');  // nothing follows a chat

  options.format = TokenFormat::kU16;
  options.output = folder_.Path("narrow.bin");
  EXPECT_THAT(WhyNot(options), AllOf(HasSubstr("c.jsonl:1: only part of it"), HasSubstr("llmq")));
}

TEST_F(PrepareTest, Output_OfAnyNumberOfThreads_IsTheSame) {
  PrepareOptions options = Options({folder_.Write("a.jsonl", ManyRecords(6000, 1)),
                                    folder_.Write("b.txt", ManyRecords(4000, 2))});
  options.tokenizer = TokenizerFolder();
  RunGood(options);
  const std::string first = ContentOf(options.output);
  const std::string ends = ContentOf(options.output + ".documents");
  for (const int threads : {1, 3, 8}) {
    options.threads = threads;
    RunGood(options);
    EXPECT_EQ(ContentOf(options.output), first);
    EXPECT_EQ(ContentOf(options.output + ".documents"), ends);
  }
}

// Ends it after so many microseconds as kill -9 would: nothing catches the timer's signal.
void KillDuring(const PrepareOptions& options, int microseconds) {
  const pid_t child = fork();
  if (child == 0) {
    const itimerval timer = {{0, 0}, {microseconds / 1000000, microseconds % 1000000}};
    setitimer(ITIMER_REAL, &timer, nullptr);
    static_cast<void>(PrepareData(options, {}, common::MonotonicClock()).status());
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

TEST_F(PrepareTest, Killed_AtAnyMoment_GoesOnToTheSameBytes) {
  const std::vector<std::string> inputs = {folder_.Write("a.jsonl", ManyRecords(3000, 1)),
                                           folder_.Write("b.txt", ManyRecords(3000, 2))};
  PrepareOptions options = Options(inputs);
  options.inputs[0].weight = 1.5;
  options.max_tokens = 5000;
  options.sync_seconds = 0;
  PrepareReport whole = RunGood(options);
  const std::string expected = ContentOf(options.output);
  const std::string ends = ContentOf(options.output + ".documents");
  for (int wait = 500; wait < 60000; wait = wait * 3 / 2) {
    std::filesystem::remove(options.output);
    for (int i = 0; i < 3; ++i) KillDuring(options, wait + 1000 * i);
    const PrepareReport report = RunGood(options);
    EXPECT_EQ(ContentOf(options.output), expected) << wait;
    EXPECT_EQ(ContentOf(options.output + ".documents"), ends);
    EXPECT_EQ(report.trained, whole.trained);
    EXPECT_EQ(report.longest, whole.longest);
    EXPECT_EQ(report.truncated, whole.truncated);
    EXPECT_FALSE(std::filesystem::exists(options.output + ".partial"));
    EXPECT_FALSE(std::filesystem::exists(options.output + ".partial.journal"));
  }
}

TEST_F(PrepareTest, Interrupted_GoesOnUnlessAnInputHasChanged) {
  const std::string input = folder_.Write("a.jsonl", ManyRecords(6000, 1));
  PrepareOptions options = Options({input});
  RunGood(options);
  const std::string expected = ContentOf(options.output);
  PrepareEvents events;
  int chunks = 0;
  events.progress = [&](const PrepareProgress& progress) {
    EXPECT_EQ(progress.path, input);
    EXPECT_LE(progress.done_bytes, progress.total_bytes);
    return ++chunks < 4;
  };
  EXPECT_TRUE(absl::IsCancelled(PrepareData(options, events, clock_).status()));
  RunGood(options);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("going on after "));
  EXPECT_EQ(ContentOf(options.output), expected);

  chunks = 0;
  EXPECT_TRUE(absl::IsCancelled(PrepareData(options, events, clock_).status()));
  folder_.Write("a.jsonl", ManyRecords(6000, 3));
  notices_.clear();
  RunGood(options);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_THAT(notices_[0], HasSubstr("beginning anew"));
  const std::string changed = ContentOf(options.output);
  EXPECT_NE(changed, expected);
  RunGood(options);
  EXPECT_EQ(ContentOf(options.output), changed);
}

TEST_F(PrepareTest, BadRecords_AreAllNamedUpToTwenty) {
  const std::string input =
      folder_.Write("a.jsonl", "{\"text\": \"good\"}\n{\"text\": 7}\n\n{\"text\"\n");
  PrepareOptions options = Options({input});
  EXPECT_THAT(WhyNot(options), AllOf(HasSubstr(input + ":2: "), HasSubstr("\n" + input + ":4: "),
                                     Not(HasSubstr(":1: "))));
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "{\"text\": 7}\n";
  const std::string text = WhyNot(Options({folder_.Write("many.jsonl", many)}));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 19);

  options.skip_bad = true;
  const PrepareReport report = RunGood(options);
  EXPECT_EQ(report.skipped, 2);
  EXPECT_THAT(TokensOf(report.path), ElementsAre('g', 'o', 'o', 'd'));
}

TEST_F(PrepareTest, MaxTokens_CutsAndCountsLongerDocuments) {
  PrepareOptions options = Options({folder_.Write("a.jsonl",
                                                  "{\"text\": \"abc\"}\n{\"text\": \"abcd\"}\n"
                                                  "{\"text\": \"ab\"}\n"),
                                    folder_.Write("b.txt", std::string(600000, 'x'))});
  options.tokenizer = TokenizerFolder();
  options.max_tokens = 4;
  const PrepareReport report = RunGood(options);
  EXPECT_EQ(report.truncated, 2);
  EXPECT_EQ(report.longest, 4);
  EXPECT_THAT(TokensOf(report.path), ElementsAre('a', 'b', 'c', kTestEndOfText, 'a', 'b', 'c', 'd',
                                                 'a', 'b', kTestEndOfText, 'x', 'x', 'x', 'x'));
}

TEST_F(PrepareTest, MaxTokens_ThatLeavesNothingToTrain_IsAnErrorOfTheLine) {
  const std::string input =
      folder_.Write("a.jsonl", "{\"prompt\": \"a long question\", \"completion\": \"answer\"}\n");
  PrepareOptions options = Options({input});
  options.tokenizer = TokenizerFolder();
  options.max_tokens = 5;
  EXPECT_THAT(WhyNot(options), AllOf(HasSubstr(input + ":1: nothing is left to train on"),
                                     HasSubstr("--max-tokens")));
}

TEST_F(PrepareTest, Weights_RepeatAndSampleEvenly) {
  std::string lines;
  for (const char c : {'a', 'b', 'c', 'd'}) lines += std::string("{\"text\": \"") + c + "\"}\n";
  PrepareOptions options = Options({folder_.Write("a.jsonl", lines), folder_.Write("b.txt", "x")});
  options.inputs[0].weight = 1.5;
  options.inputs[1].weight = 2;
  EXPECT_THAT(TokensOf(RunGood(options).path), ElementsAre('a', 'b', 'c', 'd', 'b', 'd', 'x', 'x'));
  options.inputs[0].weight = 0.25;
  EXPECT_THAT(TokensOf(RunGood(options).path), ElementsAre('d', 'x', 'x'));
  options.output = folder_.Path("none.bin");
  options.inputs[1].weight = 1.5;
  EXPECT_THAT(WhyNot(options), HasSubstr("a text is one document"));
}

TEST_F(PrepareTest, Parse_WeightsAndNames_AreToldApart) {
  EXPECT_EQ(ParsePrepareInput("a:2.5")->path, "a");
  EXPECT_EQ(ParsePrepareInput("a:2.5")->weight, 2.5);
  EXPECT_EQ(ParsePrepareInput("a:b")->path, "a:b");
  EXPECT_EQ(ParsePrepareInput(folder_.Write("c:3", "x"))->path, folder_.Path("c:3"));
  EXPECT_FALSE(ParsePrepareInput("a:0").ok());
  EXPECT_FALSE(ParsePrepareInput("a:-1").ok());
  EXPECT_FALSE(ParsePrepareInput("a:nan").ok());
  EXPECT_FALSE(ParsePrepareInput("a:1e9").ok());
  EXPECT_THAT(std::string(ParsePrepareInput("-").status().message()), HasSubstr("name a file"));
}

TEST_F(PrepareTest, Inputs_OfOtherKinds_AreAllRefused) {
  const std::string text =
      WhyNot(Options({folder_.Path("missing.txt"), folder_.Write("a.json", "[]"),
                      folder_.Write("a.parquet", "PAR1"), folder_.Write("b.txt", "BIN.TOK\nxxxx"),
                      folder_.Write("c.bin", "xx"), folder_.Write("empty.txt", "")}));
  EXPECT_THAT(text, AllOf(HasSubstr("missing.txt: no such file"), HasSubstr("a.json: is JSON"),
                          HasSubstr("a.parquet: "), HasSubstr("b.txt: is a token file already"),
                          HasSubstr("c.bin: is a token file"), HasSubstr("empty.txt: is empty")));
  PrepareOptions same = Options({folder_.Write("out.bin", "x")});
  EXPECT_THAT(std::string(Run(same).status().message()), HasSubstr("is an input"));
}

TEST_F(PrepareTest, Digest_ChangesWithWhatTheOutputDependsOn) {
  const std::string input = folder_.Write("a.jsonl", ManyRecords(10, 1));
  PrepareOptions options = Options({input});
  const std::string first = *PrepareDigest(options);
  options.threads = 7;
  options.output = folder_.Path("elsewhere");
  EXPECT_EQ(*PrepareDigest(options), first);
  options.max_tokens = 7;
  EXPECT_NE(*PrepareDigest(options), first);
  options.max_tokens = 0;
  options.tokenizer = TokenizerFolder();
  EXPECT_NE(*PrepareDigest(options), first);
  options.tokenizer = "";
  folder_.Write("a.jsonl", ManyRecords(10, 2));
  EXPECT_NE(*PrepareDigest(options), first);
}

}  // namespace
}  // namespace strata::data
