// Folders of jobs that change while the controller reads them; log lines: see log_book_test.
#include <filesystem>
#include <fstream>
#include <string>

#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

namespace fs = std::filesystem;

TEST(JobFolders, RecordsOfStepsAreNotReadThroughALinkOutOfTheProjectsRoots) {
  // As the controller writes it: TempDir may end in a slash.
  const std::string folder =
      (fs::path(testing::TempDir()) / "JobFolders").lexically_normal().string();
  fs::remove_all(folder);
  RunningController running(folder);
  const std::string root = folder + "/root", outside = folder + "/outside";
  fs::create_directories(root + "/way/a");
  fs::create_directories(outside + "/a");
  v1::ApplyPolicyRequest policy;
  v1::ProjectPolicy& project = *policy.mutable_policy()->add_projects();
  project.set_name("nlp");
  project.add_roots(root);
  v1::ApplyPolicyResponse applied;
  Deadline applying;
  ASSERT_TRUE(running.cluster->ApplyPolicy(&applying, policy, &applied).ok());
  v1::CreateJobRequest wanted = GoodRequest("a");
  wanted.mutable_job()->set_directory(root + "/way/a");
  wanted.mutable_job()->mutable_spec()->set_project("nlp");
  wanted.mutable_job()->mutable_spec()->mutable_data()->mutable_train(0)->set_path(root + "/text");
  v1::Job job;
  ASSERT_TRUE(running.Create(wanted, &job).ok());
  for (const std::string& where : {root + "/way/a", outside + "/a"}) {
    std::ofstream(where + "/metrics.jsonl")
        << "{\"step\": 1, \"loss\": 1, \"epoch\": 1, \"job_uid\": \"" << job.uid() << "\"}\n";
  }
  const auto first_is_a_step = [&] {  // else it is the job's state
    Deadline context;
    v1::StreamProgressRequest request;
    request.set_name("jobs/a");
    const auto reader = running.jobs->StreamProgress(&context, request);
    v1::JobProgress progress;
    EXPECT_TRUE(reader->Read(&progress));
    context.TryCancel();
    return progress.has_step();
  };
  EXPECT_TRUE(first_is_a_step());
  fs::rename(root + "/way", root + "/was");
  fs::create_directory_symlink(outside, root + "/way");
  EXPECT_FALSE(first_is_a_step());
}

}  // namespace
}  // namespace strata::controller
