#include "client/job_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "data/token_source.h"

namespace strata::client {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

class JobData : public testing::Test {
 protected:
  JobData() : err_(std::tmpfile()), terminal_(stdout, err_, {}) {
    const auto& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = Absolute(std::string("data-") + test.name(), testing::TempDir());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    Write("a.txt", std::string(641, 'a'));   // 10 windows of 64
    Write("b.txt", std::string(1921, 'b'));  // 30
  }
  ~JobData() override { std::fclose(err_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name) << text;
  }

  // A job of sequences of 64 in batches of 8; `data`: its section, `train`: of its steps.
  LoadedJob Load(const std::string& data, const std::string& train) {
    Write("job.yaml", "model: {family: llama, layers: 1, hidden: 8, heads: 2, ffn: 8}\ndata: {" +
                          data + "}\ntrain: {" + train + ", sequence: 64, global_batch: 8}\n");
    absl::StatusOr<LoadedJob> job = LoadJob(folder_ + "/job.yaml", {}, {});
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(LoadedJob());
  }
  absl::Status Complete(LoadedJob& job) { return CompleteJob(folder_ + "/cache", terminal_, job); }
  std::string Told() const {
    std::string text;
    std::rewind(err_);
    for (int c = std::fgetc(err_); c != EOF; c = std::fgetc(err_)) text += static_cast<char>(c);
    return text;
  }

  std::string folder_;
  std::FILE* err_;
  Terminal terminal_;
};

TEST_F(JobData, WithStepsAndTextNothingIsMadeOrTold) {
  LoadedJob job = Load("train: [{path: a.txt}]", "steps: 7");
  const std::string before = job.file.job.SerializeAsString();
  ASSERT_TRUE(Complete(job).ok());
  EXPECT_EQ(job.file.job.SerializeAsString(), before);
  EXPECT_FALSE(fs::exists(folder_ + "/cache"));
  EXPECT_EQ(Told(), "");
}

TEST_F(JobData, EpochsOfSeveralFilesReadEachSequenceOnce) {
  LoadedJob job = Load("train: [{path: a.txt}, {path: b.txt}]", "epochs: 3");
  ASSERT_TRUE(Complete(job).ok());
  EXPECT_EQ(job.file.job.train().steps(), 15);  // 3 · 40 / 8
  EXPECT_EQ(job.file.job.data().train(0).weight(), 10);
  EXPECT_EQ(job.file.job.data().train(1).weight(), 30);
  EXPECT_EQ(Told(), "3 epochs of 40 sequences: 15 steps\n");
}

TEST_F(JobData, EpochsOfOneFileAreRoundedUpToSteps) {
  LoadedJob job = Load("train: [{path: a.txt}]", "epochs: 1");
  ASSERT_TRUE(Complete(job).ok());
  EXPECT_EQ(job.file.job.train().steps(), 2);
  EXPECT_EQ(Told(), "1 epoch of 10 sequences: 2 steps\n");
}

TEST_F(JobData, WeightedFilesAreReadUntilTheLastIsThrough) {
  // Of four samples one is of b.txt: its 30 take 120.
  LoadedJob job = Load("train: [{path: a.txt, weight: 3}, {path: b.txt}]", "epochs: 2");
  ASSERT_TRUE(Complete(job).ok());
  EXPECT_EQ(job.file.job.data().train(0).weight(), 3);
  EXPECT_EQ(job.file.job.data().train(1).weight(), 1);
  EXPECT_NEAR(static_cast<double>(job.file.job.train().steps()), 30, 1);
  EXPECT_THAT(Told(), HasSubstr("read by their files' weights"));
}

TEST_F(JobData, ValidationDataIsNoPartOfAnEpoch) {
  LoadedJob job = Load("train: [{path: b.txt}], validation: {fraction: 0.2}", "epochs: 1");
  ASSERT_TRUE(Complete(job).ok());
  EXPECT_EQ(job.file.job.train().steps(), 3);  // 24 of 30
}

TEST_F(JobData, RecordsBecomeATokenFileThatIsUsedAgain) {
  std::string records;
  for (int i = 0; i < 50; ++i) records += "{\"text\": \"In the beginning was the word\"}\n";
  Write("words.jsonl", records);
  const std::string data = "train: [{path: words.jsonl}], validation: {path: a.txt}";
  LoadedJob job = Load(data, "epochs: 1");
  ASSERT_TRUE(Complete(job).ok());
  const auto& file = job.file.job.data().train(0);
  EXPECT_THAT(file.path(), ContainsRegex("/cache/words-[0-9a-f]+\\.bin$"));
  EXPECT_EQ(file.source().path(), folder_ + "/words.jsonl");
  EXPECT_EQ(file.source().bytes(), static_cast<int64_t>(records.size()));
  EXPECT_EQ(job.file.job.data().validation().path(), folder_ + "/a.txt");
  EXPECT_FALSE(job.file.job.data().validation().has_source());
  const auto tokens = data::OpenTokenSource(file.path());
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  EXPECT_EQ((*tokens)->tokens(), 50 * 29);
  const auto made = fs::last_write_time(file.path());

  LoadedJob again = Load(data, "epochs: 1");
  ASSERT_TRUE(Complete(again).ok());
  EXPECT_EQ(again.file.job.SerializeAsString(), job.file.job.SerializeAsString());
  EXPECT_EQ(fs::last_write_time(file.path()), made);
  EXPECT_THAT(Told(), HasSubstr("its tokens are in"));

  Write("words.jsonl", records + "{\"text\": \"more\"}\n");
  LoadedJob other = Load(data, "epochs: 1");
  ASSERT_TRUE(Complete(other).ok());
  EXPECT_NE(other.file.job.data().train(0).path(), file.path());
}

TEST_F(JobData, AWrongRecordIsToldByFileAndLine) {
  Write("words.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
  LoadedJob job = Load("train: [{path: words.jsonl}]", "steps: 1");
  const absl::Status status = Complete(job);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_ + "/words.jsonl:2: "));
}

TEST_F(JobData, RecordsTooShortForASequenceAreToldAtTheirKey) {
  Write("words.jsonl", "{\"text\": \"one\"}\n");
  LoadedJob job = Load("train: [{path: words.jsonl}]", "steps: 1");
  EXPECT_THAT(std::string(Complete(job).message()),
              ContainsRegex("job.yaml:2:23: data.train\\[0\\].path: .*shorter than one sequence"));
}

TEST_F(JobData, MissingRecordsAndTokenizersAreToldAtTheirKeys) {
  Write("job.yaml",
        "model: {family: llama, layers: 1, hidden: 8, heads: 2, ffn: 8}\n"
        "data: {tokenizer: nowhere, train: [{path: no.jsonl}]}\n");
  const std::string told = std::string(LoadJob(folder_ + "/job.yaml", {}, {}).status().message());
  EXPECT_THAT(told, ContainsRegex("job.yaml:2:19: data.tokenizer: .*/nowhere"));
  EXPECT_THAT(told,
              ContainsRegex("job.yaml:2:43: data.train\\[0\\].path: .*/no.jsonl: no such file"));
}

}  // namespace
}  // namespace strata::client
