// Keys whose values follow from files: epochs, the tokenizer's vocabulary, records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "spec/good_job.h"
#include "spec/job_file.h"

namespace strata::spec {
namespace {

using testing::HasSubstr;

struct Outcome {
  JobFile file;
  std::string told;
};

Outcome Read(const std::string& text, std::vector<std::string> settings, bool completed = false) {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = std::move(settings);
  options.completed = completed;
  Outcome outcome{ReadJob(text, options, problems), ""};
  outcome.told = problems.ToString();
  return outcome;
}

TEST(Epochs, StandInPlaceOfStepsWhichFollowFromTheFiles) {
  const auto read = Read(Changed("steps: 4", "epochs: 3"), {});
  EXPECT_EQ(read.told, "");
  EXPECT_EQ(read.file.job.train().epochs(), 3);
  EXPECT_FALSE(read.file.job.train().has_steps());
  EXPECT_FALSE(read.file.job.data().train(0).has_weight());
  EXPECT_THAT(Read(GoodJob(), {"train.epochs=3"}).told,
              HasSubstr("job.yaml:19:10: train.steps: given together with train.epochs"));
  EXPECT_THAT(Read(Changed("steps: 4", "epochs: 0"), {}).told, HasSubstr("train.epochs: "));
}

TEST(Tokenizer, TellsTheVocabularyWhereTheFileDoesNot) {
  const std::string text = Changed("  vocab: 256\n", "");
  ReadOptions options;
  options.settings = {"data.tokenizer=some/folder"};
  Problems none("job.yaml");
  EXPECT_FALSE(ReadJob(text, options, none).job.model().has_vocab());
  EXPECT_TRUE(none.empty()) << none.ToString();
  options.vocabulary_of = [](const std::string& tokenizer) -> std::optional<int64_t> {
    EXPECT_EQ(tokenizer, "some/folder");
    return 1000;
  };
  EXPECT_EQ(ReadJob(text, options, none).job.model().vocab(), 1000);
  EXPECT_EQ(ReadJob(GoodJob(), options, none).job.model().vocab(), 256);
  options.settings = {};
  EXPECT_EQ(ReadJob(text, options, none).job.model().vocab(), 256);
}

TEST(Tokenizer, SmallVocabulariesAreItsOwnMatter) {
  ReadOptions options;
  options.settings = {"data.tokenizer=folder", "model.vocab=100"};
  Problems problems("job.yaml");
  ReadJob(GoodJob(), options, problems);
  EXPECT_TRUE(problems.empty()) << problems.ToString();
}

TEST(Completed, JobsHaveWhatFollowsFromTheirFiles) {
  const auto told = [](const std::string& text, std::vector<std::string> settings) {
    return Read(text, std::move(settings), /*completed=*/true).told;
  };
  EXPECT_EQ(told(GoodJob(), {"train.epochs=3"}), "");
  EXPECT_THAT(told(Changed("steps: 4", "epochs: 3"), {}),
              HasSubstr("train.epochs: train.steps is missing"));
  EXPECT_THAT(told(Changed("  vocab: 256\n", ""), {"data.tokenizer=/folder"}),
              HasSubstr("model.vocab: required key is missing (the tokenizer's size"));
  EXPECT_EQ(told(GoodJob(), {"data.tokenizer=/folder"}), "");
  for (const char* name : {"/a.jsonl", "/a.jsonl.gz", "/a.jsonl.zst"}) {
    EXPECT_THAT(told(GoodJob(), {absl::StrCat("data.train[0].path=", name)}),
                HasSubstr(absl::StrCat("data.train[0].path: ", name,
                                       ": records and compressed text have to be")));
    EXPECT_THAT(told(GoodJob(), {absl::StrCat("data.validation={path: ", name, "}")}),
                HasSubstr("strata data prepare"));
  }
}

}  // namespace
}  // namespace strata::spec
