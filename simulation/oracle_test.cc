// The invariants of scheduling see what breaks them.
#include "simulation/oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::simulation {
namespace {

using ::testing::HasSubstr;

class OracleTest : public ::testing::Test {
 protected:
  OracleTest() {
    oracle_.OnNode("nodes/n0", "d0");
    oracle_.OnNode("nodes/n1", "d0");
    oracle_.OnNode("nodes/n2", "d1");
    oracle_.OnNode("nodes/n3", "");
    oracle_.OnQuota("limited", 2);
  }
  // A job of tensor groups of two that starts on these nodes, a rank on each.
  void Start(const std::string& name, const std::vector<std::string>& nodes) {
    v1::JobRecord job = Named(name);
    job.set_state(v1::Job::QUEUED);
    Save(job);
    job.set_state(v1::Job::STARTING);
    job.set_epoch(1);
    job.mutable_layout()->add_order("tensor");
    job.mutable_layout()->set_data(1);
    for (size_t rank = 0; rank < nodes.size(); ++rank) {
      v1::RankPlace& place = *job.add_placement();
      place.set_rank(static_cast<int>(rank));
      place.set_node("nodes/" + nodes[rank]);
      place.set_device(static_cast<int>(rank));
    }
    Save(job);
  }
  static v1::JobRecord Named(const std::string& name) {
    v1::JobRecord job;
    job.set_name("jobs/" + name);
    job.mutable_spec()->set_project("limited");
    job.mutable_spec()->mutable_parallel()->set_tensor(2);
    job.mutable_spec()->mutable_parallel()->set_data(1);
    return job;
  }
  void Save(v1::JobRecord& job) {
    job.set_resource_version(++version_);
    oracle_.OnDurable({job});
  }
  Oracle oracle_;
  int64_t version_ = 0;
};

TEST_F(OracleTest, AWholeGroupInOneDomainIsRight) {
  Start("a", {"n0", "n1"});
  EXPECT_EQ(oracle_.violation(), "");
}

TEST_F(OracleTest, SeesATensorGroupInTwoDomains) {
  Start("a", {"n1", "n2"});
  EXPECT_THAT(oracle_.violation(), HasSubstr("in two domains"));
}

TEST_F(OracleTest, SeesATensorGroupOnTwoNodesWithoutADomain) {
  Start("a", {"n3", "n0"});
  EXPECT_THAT(oracle_.violation(), HasSubstr("in two domains"));
}

TEST_F(OracleTest, SeesHalfAGang) {
  Start("a", {"n0"});
  EXPECT_THAT(oracle_.violation(), HasSubstr("starts with 1 ranks"));
}

TEST_F(OracleTest, SeesAQuotaExceeded) {
  Start("a", {"n0", "n1"});
  Start("b", {"n2", "n2"});
  EXPECT_THAT(oracle_.violation(), HasSubstr("uses 4 devices of 2"));
}

TEST_F(OracleTest, SeesAStartOnADrainedNode) {
  oracle_.OnDrained("nodes/n1", true);
  Start("a", {"n0", "n1"});
  EXPECT_THAT(oracle_.violation(), HasSubstr("on a drained node"));
}

TEST_F(OracleTest, SeesAStartWhereAnotherJobIsToMove) {
  Start("a", {"n0", "n1"});
  v1::JobRecord job = oracle_.durable().at("jobs/a");
  v1::RankPlace& place = *job.mutable_moving_to()->add_ranks();
  place.set_node("nodes/n3");
  Save(job);
  EXPECT_EQ(oracle_.violation(), "");
  Start("b", {"n3", "n3"});
  EXPECT_THAT(oracle_.violation(), HasSubstr("starts on nodes/n3, which is kept for jobs/a"));
}

TEST_F(OracleTest, SeesARunningJobThatIsQueuedForNobody) {
  Start("a", {"n0", "n1"});
  v1::JobRecord job = oracle_.durable().at("jobs/a");
  job.set_state(v1::Job::QUEUED);
  Save(job);
  EXPECT_THAT(oracle_.violation(), HasSubstr("became"));
}

}  // namespace
}  // namespace strata::simulation
