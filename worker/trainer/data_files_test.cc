#include "worker/trainer/data_files.h"

#include <filesystem>
#include <string>

#include "checkpoint/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A job that trains on a file and validates on another.
class DataFilesOfAJob : public ::testing::Test {
 protected:
  DataFilesOfAJob() {
    Write("text", "In the beginning");
    Write("held", "God created");
    job_.mutable_data()->add_train()->set_path(Path("text"));
    job_.mutable_data()->mutable_validation()->set_path(Path("held"));
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    checkpoint::WriteFile(Path(name), text);
  }
  v1::JobPlan Plan(const v1::JobSpec& job) const {
    v1::JobPlan plan;
    auto found = IdentifyDataFiles(job);
    EXPECT_TRUE(found.ok()) << found.status();
    if (found.ok()) *plan.mutable_data_files() = *found;
    return plan;
  }
  // Of the job as it is now, going on from what `before` trained on; what is told goes to `plan`.
  absl::Status Check(const v1::JobSpec& before, const protocol::DataFiles& recorded,
                     v1::JobPlan& plan) const {
    plan = Plan(job_);
    return CheckSameData(job_, before, recorded, plan);
  }

  const checkpoint::TemporaryFolder folder_;
  v1::JobSpec job_;
};

TEST_F(DataFilesOfAJob, UnchangedOrMovedFilesMayBeGoneOnWith) {
  const v1::JobSpec before = job_;
  const protocol::DataFiles recorded = FromManifest(ToManifest(Plan(job_).data_files()));
  v1::JobPlan plan;
  EXPECT_TRUE(Check(before, recorded, plan).ok());
  std::filesystem::rename(Path("text"), Path("moved"));
  job_.mutable_data()->mutable_train(0)->set_path(Path("moved"));
  EXPECT_TRUE(Check(before, recorded, plan).ok());
  EXPECT_EQ(plan.notices_size(), 0);
}

TEST_F(DataFilesOfAJob, AChangedFileIsRefusedByNameWithWhatChangedAndWhatToDo) {
  const v1::JobSpec before = job_;
  const protocol::DataFiles recorded = Plan(job_).data_files();
  v1::JobPlan plan;
  Write("text", "In the beginning God");
  EXPECT_THAT(std::string(Check(before, recorded, plan).message()),
              AllOf(HasSubstr(Path("text") + ": is not what the checkpoint was trained on: its "
                                             "size went from 16 to 20 bytes"),
                    HasSubstr("restore"), HasSubstr("start a new job")));
  Write("text", "In the beginnin!");
  EXPECT_THAT(std::string(Check(before, recorded, plan).message()),
              HasSubstr("its content differs from about byte 15 of 16 on"));
  Write("text", "In the beginning");
  EXPECT_TRUE(Check(before, recorded, plan).ok());
}

TEST_F(DataFilesOfAJob, AnotherValidationFileIsToldAndAChangedOneRefused) {
  const v1::JobSpec before = job_;
  const protocol::DataFiles recorded = Plan(job_).data_files();
  v1::JobPlan plan;
  Write("other", "the heaven");
  job_.mutable_data()->mutable_validation()->set_path(Path("other"));
  EXPECT_TRUE(Check(before, recorded, plan).ok());
  ASSERT_EQ(plan.notices_size(), 1);
  EXPECT_THAT(plan.notices(0).text(), HasSubstr("data.validation.path"));
  job_.mutable_data()->clear_validation();
  EXPECT_TRUE(Check(before, recorded, plan).ok());
  job_ = before;
  Write("held", "God created!");
  EXPECT_THAT(std::string(Check(before, recorded, plan).message()), HasSubstr(Path("held")));
}

TEST_F(DataFilesOfAJob, APreparedFileIsToldByWhatItWasMadeOf) {
  v1::PreparedFrom& source = *job_.mutable_data()->mutable_train(0)->mutable_source();
  source.set_path("/my/chat.jsonl");
  source.set_bytes(100);
  source.set_digest("a");
  const v1::JobSpec before = job_;
  const protocol::DataFiles recorded = Plan(job_).data_files();
  Write("text", "other tokens");
  v1::JobPlan plan;
  EXPECT_THAT(std::string(Check(before, recorded, plan).message()),
              AllOf(HasSubstr("/my/chat.jsonl: "), HasSubstr("another tokenizer")));
  source.set_bytes(120);
  source.set_digest("b");
  EXPECT_THAT(std::string(Check(before, recorded, plan).message()),
              HasSubstr("/my/chat.jsonl: is not what the checkpoint was trained on: its size went "
                        "from 100 to 120 bytes"));
}

TEST_F(DataFilesOfAJob, ARankFindsAFileThatChangedSinceThePlan) {
  const v1::JobPlan plan = Plan(job_);
  EXPECT_TRUE(CheckUnchanged(job_, plan).ok());
  Write("held", "God made all");
  EXPECT_THAT(std::string(CheckUnchanged(job_, plan).message()), HasSubstr(Path("held") + ": its"));
}

}  // namespace
}  // namespace strata::worker
