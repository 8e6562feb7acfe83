#include "data/corpus.h"

#include <sys/stat.h>
#include <unistd.h>

#include <set>

#include "data/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

CorpusSpec OneFile(const std::string& path, int64_t sequence) {
  CorpusSpec spec;
  spec.train = {{path, 1}};
  spec.sequence = sequence;
  return spec;
}

class CorpusTest : public ::testing::Test {
 protected:
  absl::Status Refused(const std::string& path, int64_t sequence = 4) {
    return OpenCorpus(OneFile(path, sequence), nullptr).status();
  }
  const TemporaryFolder folder_;
};

TEST_F(CorpusTest, Open_TokensForExactWindows_CountsThem) {
  struct {
    int bytes;
    int64_t windows;
  } const cases[] = {{5, 1}, {8, 1}, {9, 2}, {12, 2}, {13, 3}};
  for (const auto& c : cases) {
    const auto corpus = OpenCorpus(OneFile(folder_.Write("t", Counting(c.bytes)), 4), nullptr);
    ASSERT_TRUE(corpus.ok()) << corpus.status();
    EXPECT_EQ(corpus->train.windows(), c.windows) << c.bytes;
    EXPECT_EQ(corpus->vocabulary, 256);
    EXPECT_TRUE(corpus->validation.sources.empty());
  }
}

TEST_F(CorpusTest, Open_MissingFile_SaysSo) {
  const absl::Status status = Refused(folder_.Path("nowhere.txt"));
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(MessageOf(status), folder_.Path("nowhere.txt") + ": no such file");
  folder_.Write("file", "x");
  EXPECT_THAT(MessageOf(Refused(folder_.Path("file/below"))), HasSubstr("no such file"));
}

TEST_F(CorpusTest, Open_NotAFile_SaysWhatItIs) {
  mkdir(folder_.Path("folder").c_str(), 0755);
  mkfifo(folder_.Path("pipe").c_str(), 0644);
  EXPECT_EQ(MessageOf(Refused(folder_.Path("folder"))),
            folder_.Path("folder") + ": is a directory, not a file");
  EXPECT_THAT(MessageOf(Refused(folder_.Path("pipe"))), HasSubstr("pipe: is not a regular file"));
  EXPECT_EQ(MessageOf(Refused(folder_.Write("none", ""))), folder_.Path("none") + ": is empty");
}

TEST_F(CorpusTest, Open_ShorterThanOneWindow_GivesTheArithmetic) {
  const std::string path = folder_.Write("short.txt", "In the beginning");
  EXPECT_EQ(MessageOf(Refused(path, 64)),
            path + ": shorter than one sequence: 16 bytes, a sequence of 64 needs 65");
  EXPECT_FALSE(Refused(path, 16).ok());
  EXPECT_TRUE(Refused(path, 15).ok());
}

TEST_F(CorpusTest, Open_UnreadableFile_SaysPermissionDenied) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = folder_.Write("secret", "something");
  chmod(path.c_str(), 0);
  EXPECT_THAT(MessageOf(Refused(path)), HasSubstr("secret: permission denied"));
}

TEST_F(CorpusTest, Open_UnknownFirstWord_IsText) {
  const std::string word(std::string("\x88\xd7\x34\x01", 4));  // 20240264: no magic
  EXPECT_TRUE(Refused(folder_.Write("other", word + Counting(20))).ok());
}

TEST_F(CorpusTest, Open_DamagedTokenFile_NamesItsPath) {
  const std::pair<std::string, std::string> cases[] = {
      {"a.bin", Counting(21)},
      {"a.idx", Counting(20)},
      {"a.jsonl", "{\"text\": \"x\"}"},
      {"llmq", "BIN.TOK\n" + Counting(20)},
      {"gpt2", std::string("\x88\xd8\x34\x01", 4) + Counting(20)},        // 20240520
      {"evaluation", std::string("\x8a\xd8\x34\x01", 4) + Counting(20)},  // 20240522
      {"llama3", std::string("\xa1\xd9\x34\x01", 4) + Counting(20)},      // 20240801
  };
  for (const auto& [name, content] : cases) {
    const absl::Status status = Refused(folder_.Write(name, content));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << name << ": " << status;
    EXPECT_THAT(MessageOf(status), HasSubstr(folder_.Path(name) + ": "));
  }
}

TEST_F(CorpusTest, Open_TokensBeyondTheGivenVocabulary_AreFoundWhenRead) {
  CorpusSpec spec = OneFile(folder_.Write("t.bin", Counting(64)), 4);
  EXPECT_EQ(OpenCorpus(spec, nullptr)->vocabulary, 62959);
  spec.vocabulary = 300;
  const auto corpus = OpenCorpus(spec, nullptr);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  int32_t tokens[4];
  const absl::Status status = corpus->train.sources[0].tokens->Read(0, 4, tokens);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_THAT(MessageOf(status),
              AllOf(HasSubstr("t.bin: token 1792 at position 0"), HasSubstr("vocabulary of 300")));
}

TEST_F(CorpusTest, Open_SeveralBadFields_ReportsEachWithItsField) {
  CorpusSpec spec;
  spec.sequence = 4;
  spec.train = {{folder_.Path("one"), 1},
                {folder_.Write("good", Counting(20)), 1},
                {folder_.Write("empty", ""), 1}};
  spec.validation_path = folder_.Path("two");
  std::vector<CorpusProblem> problems;
  const auto corpus = OpenCorpus(spec, &problems);
  ASSERT_THAT(problems, SizeIs(3));
  EXPECT_EQ(corpus.status(), problems[0].status);
  EXPECT_EQ(problems[0].field, "train[0].path");
  EXPECT_EQ(problems[1].field, "train[2].path");
  EXPECT_EQ(problems[2].field, "validation.path");
  EXPECT_THAT(MessageOf(problems[2].status), HasSubstr("two: no such file"));
}

TEST_F(CorpusTest, Open_BadNumbers_AreRefused) {
  const std::string path = folder_.Write("t", Counting(20));
  EXPECT_FALSE(OpenCorpus(OneFile(path, 0), nullptr).ok());
  EXPECT_FALSE(OpenCorpus({{{path, -1}}, "", 0, 4}, nullptr).ok());
  EXPECT_FALSE(OpenCorpus({{{path, 0.0 / 0.0}}, "", 0, 4}, nullptr).ok());
  EXPECT_FALSE(OpenCorpus({{{path, 1}}, "", 1.5, 4}, nullptr).ok());
  EXPECT_FALSE(OpenCorpus({{{path, 1}}, path, 0.5, 4}, nullptr).ok());
  EXPECT_FALSE(OpenCorpus({{}, "", 0, 4}, nullptr).ok());
}

TEST_F(CorpusTest, Fraction_OfTwoSources_TakesTheLastWindowsOfEach) {
  CorpusSpec spec;
  spec.sequence = 4;
  spec.train = {{folder_.Write("long", Counting(4 * 10 + 1)), 2},
                {folder_.Write("small", Counting(4 * 3 + 1)), 1}};
  spec.validation_fraction = 0.25;
  const auto corpus = OpenCorpus(spec, nullptr);
  ASSERT_TRUE(corpus.ok()) << corpus.status();
  ASSERT_THAT(corpus->validation.sources, SizeIs(2));
  EXPECT_EQ(corpus->train.sources[0].windows, 8);  // floor(0.25 * 10) = 2
  EXPECT_EQ(corpus->validation.sources[0].first_window, 8);
  EXPECT_EQ(corpus->validation.sources[0].windows, 2);
  EXPECT_EQ(corpus->train.sources[1].windows, 2);  // at least one
  EXPECT_EQ(corpus->validation.sources[1].first_window, 2);
  EXPECT_EQ(corpus->validation.sources[1].windows, 1);
}

TEST_F(CorpusTest, Fraction_OfASingleWindow_LeavesNothingToTrainOn) {
  CorpusSpec spec = OneFile(folder_.Write("t", Counting(5)), 4);
  spec.validation_fraction = 0.1;
  EXPECT_THAT(MessageOf(OpenCorpus(spec, nullptr).status()), HasSubstr("left to train on"));
}

TEST_F(CorpusTest, Spread_OverAllWindows_VisitsEachOnceInOrder) {
  Split split;
  split.sources = {{nullptr, 0, 3, 1}, {nullptr, 0, 4, 1}};
  std::set<std::pair<int, int64_t>> seen;
  for (int i = 0; i < 7; ++i) {
    const SampleRef sample = split.Spread(i, 7);
    seen.insert({sample.source, sample.window});
  }
  EXPECT_THAT(seen, SizeIs(7));
  EXPECT_EQ(split.Spread(0, 2), (SampleRef{0, 0}));
  EXPECT_EQ(split.Spread(1, 2), (SampleRef{1, 0}));  // floor(7 / 2) = 3
}

}  // namespace
}  // namespace strata::data
