#include "controller/logic/project_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "controller/logic/refusal.h"
#include "controller/logic/testing.h"
#include "proto/google/rpc/error_details.pb.h"

namespace strata::controller {
namespace {

using ::testing::HasSubstr;

// Project labs has limits; nothing runs, as there are no nodes.
class ProjectLimits : public ::testing::Test {
 protected:
  ProjectLimits() {
    v1::Policy policy;
    v1::ProjectPolicy& labs = *policy.add_projects();
    labs.set_name("labs");
    labs.set_max_queued_jobs(2);
    labs.set_max_priority(5);
    labs.set_max_spec_bytes(1000);
    EXPECT_TRUE(h.ApplyPolicy(policy).ok());
  }
  static v1::CreateJobRequest Asked(const std::string& name, const std::string& project) {
    v1::CreateJobRequest request = testing::Harness::Request(name, 1);
    request.mutable_job()->mutable_spec()->set_project(project);
    return request;
  }
  testing::Harness h;
};

TEST_F(ProjectLimits, SoManyJobsWait) {
  ASSERT_TRUE(h.Create(Asked("a", "labs")).ok());
  ASSERT_TRUE(h.Create(Asked("b", "labs")).ok());
  const absl::Status full = h.Create(Asked("c", "labs")).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), "QUEUE_FULL");
  EXPECT_THAT(std::string(full.message()), HasSubstr("2 jobs of project labs wait"));
  google::rpc::QuotaFailure failure;
  ASSERT_TRUE(failure.ParseFromString(std::string(*full.GetPayload(kQuotaFailureUrl))));
  EXPECT_EQ(failure.violations(0).subject(), "projects/labs");
  EXPECT_TRUE(h.Create(Asked("d", "default")).ok());
  ASSERT_TRUE(h.Cancel("a").ok());
  EXPECT_TRUE(h.Create(Asked("c", "labs")).ok());
}

TEST_F(ProjectLimits, ARequestThatIsRepeatedIsNoFurtherJob) {
  v1::CreateJobRequest request = Asked("a", "labs");
  request.set_request_id("once");
  ASSERT_TRUE(h.Create(request).ok());
  ASSERT_TRUE(h.Create(Asked("b", "labs")).ok());
  EXPECT_TRUE(h.Create(request).ok());
}

TEST_F(ProjectLimits, NoJobIsMoreUrgentThanItsProjectAllows) {
  v1::CreateJobRequest request = Asked("a", "labs");
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(6);
  const absl::Status refused = h.Create(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("resources.priority: 6 is above 5"));
  request.mutable_job()->mutable_spec()->mutable_resources()->set_priority(5);
  EXPECT_TRUE(h.Create(request).ok());
  v1::CreateJobRequest other = Asked("b", "default");
  other.mutable_job()->mutable_spec()->mutable_resources()->set_priority(6);
  EXPECT_TRUE(h.Create(other).ok());
}

TEST_F(ProjectLimits, NoSpecIsLargerThanItsProjectAllows) {
  v1::CreateJobRequest request = Asked("a", "labs");
  request.mutable_job()->mutable_spec()->mutable_data()->add_train()->set_path(
      "/" + std::string(2000, 'x'));
  const absl::Status refused = h.Create(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("project labs allows 1000"));
}

}  // namespace
}  // namespace strata::controller
