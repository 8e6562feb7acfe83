#include "controller/access/call_limits.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::controller {
namespace {

v1::Policy TwoProjects() {
  v1::Policy policy;
  for (const auto& [name, calls, streams] :
       {std::tuple("slow", 2.0, int64_t{1}), std::tuple("fast", 50.0, int64_t{9})}) {
    v1::ProjectPolicy& project = *policy.add_projects();
    project.set_name(name);
    project.set_max_calls_per_second(calls);
    project.set_max_streams(streams);
  }
  policy.add_projects()->set_name("free");
  return policy;
}

CallLimits Limits(const std::vector<std::pair<std::string, std::string>>& roles) {
  v1::Policy policy = TwoProjects();
  for (const auto& [role, project] : roles) {
    v1::RoleBinding& binding = *policy.add_roles();
    binding.set_role(role);
    binding.add_members("users/ann");
    if (!project.empty()) binding.set_project(project);
  }
  return LimitsOf(Rights(*ParseIdentity("users/ann", "tls"), policy, {}), policy);
}

TEST(CallLimits, TheLargestOfOnesProjectsCounts) {
  EXPECT_EQ(Limits({{"viewer", "slow"}}).calls_per_second, 2);
  EXPECT_EQ(Limits({{"viewer", "slow"}}).streams, 1);
  EXPECT_EQ(Limits({{"submitter", "fast"}, {"viewer", "slow"}}).calls_per_second, 50);
  EXPECT_EQ(Limits({{"viewer", "slow"}, {"submitter", "fast"}}).streams, 9);
  for (const auto& [first, second] : {std::pair("slow", "free"), std::pair("free", "slow")}) {
    const CallLimits limits = Limits({{"viewer", first}, {"viewer", second}});
    EXPECT_FALSE(limits.calls_per_second.has_value());
    EXPECT_FALSE(limits.streams.has_value());
  }
}

TEST(CallLimits, RolesInAllProjectsAndTheClusterHaveNone) {
  EXPECT_FALSE(Limits({{"viewer", "slow"}, {"viewer", ""}}).calls_per_second.has_value());
  EXPECT_FALSE(Limits({{"viewer", "slow"}, {"operator", ""}}).streams.has_value());
  EXPECT_FALSE(LimitsOf(Rights(Identity(), TwoProjects(), {}), TwoProjects()).streams.has_value());
}

TEST(CallMeter, AdmitsSoManyCallsPerSecond) {
  CallMeter meter;
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += meter.AdmitCall("users/a", 5, 10);
  EXPECT_EQ(admitted, 5);
  EXPECT_TRUE(meter.AdmitCall("users/b", 5, 10));
  for (int i = 0; i < 100; ++i) admitted += meter.AdmitCall("users/a", 5, 12 + i);
  EXPECT_EQ(admitted, 105);
  admitted = 0;  // less than one per second is possible
  for (int i = 0; i < 100; ++i) admitted += meter.AdmitCall("users/c", 0.1, i);
  EXPECT_EQ(admitted, 10);
}

TEST(CallMeter, RemembersNoMoreThanSoManyCallers) {
  CallMeter meter;
  for (size_t i = 0; i < 3 * TokenBuckets::kMostCallers; ++i) {
    EXPECT_TRUE(meter.AdmitCall(absl::StrCat("users/", i), 1, static_cast<double>(i)));
  }
}

TEST(CallMeter, CountsCallsThatAreUnderWay) {
  CallMeter meter;
  EXPECT_TRUE(meter.BeginCall("users/a", 1));
  EXPECT_FALSE(meter.BeginCall("users/a", 1));
  EXPECT_TRUE(meter.OpenStream("users/a", 1));  // that is another matter
  meter.EndCall("users/a");
  EXPECT_TRUE(meter.BeginCall("users/a", 1));
}

TEST(CallMeter, CountsStreamsUntilTheyEnd) {
  CallMeter meter;
  EXPECT_TRUE(meter.OpenStream("users/a", 2));
  EXPECT_TRUE(meter.OpenStream("users/a", 2));
  EXPECT_FALSE(meter.OpenStream("users/a", 2));
  EXPECT_TRUE(meter.OpenStream("users/b", 2));
  meter.CloseStream("users/a");
  EXPECT_TRUE(meter.OpenStream("users/a", 2));
  EXPECT_FALSE(meter.OpenStream("users/a", 2));
  EXPECT_FALSE(meter.OpenStream("users/c", 0));
}

}  // namespace
}  // namespace strata::controller
