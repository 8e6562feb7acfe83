// resources.topology in a job file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "spec/good_job.h"
#include "spec/job_file.h"

namespace strata::spec {
namespace {

using testing::HasSubstr;

// The problems of a good job with these constraints and degrees.
std::string Told(const std::string& topology, const std::string& degrees = "{data: 4}") {
  Problems problems("job.yaml");
  ReadOptions options;
  options.settings = {absl::StrCat("parallel=", degrees), "train.global_batch=16",
                      absl::StrCat("resources.topology=", topology)};
  ReadJob(GoodJob(), options, problems);
  return problems.ToString();
}

TEST(TopologyConstraints, RunsDivideRanksAndOneAnother) {
  EXPECT_EQ(Told("[{ranks: 2, within: rack}, {ranks: 4, within: zone, preferred: true}]"), "");
  EXPECT_EQ(
      Told("[{ranks: 3, within: rack}]"),
      "--set:1:29: resources.topology[0].ranks: 3 does not divide the job's 4 ranks — its runs "
      "have to be equally long\n");
  EXPECT_THAT(Told("[{ranks: 2}]"), HasSubstr("resources.topology[0]: within is missing"));
  EXPECT_THAT(Told("[{within: rack}]"), HasSubstr("resources.topology[0]: ranks is missing"));
  EXPECT_THAT(Told("[{ranks: 0, within: rack}]"), HasSubstr("must be at least 1, not 0"));
  EXPECT_THAT(Told("[{ranks: 2, within: rack, perferred: true}]"),
              HasSubstr("did you mean preferred?"));
  EXPECT_THAT(Told("[{ranks: 4, within: zone}, {ranks: 6, within: rack}]", "{data: 12}"),
              HasSubstr("6 and the 4 of resources.topology[0] do not divide one another"));
  EXPECT_THAT(Told("[{ranks: 6, within: rack}]", "{data: 3, tensor: 4}"),
              HasSubstr("6 is neither a multiple nor a divisor of parallel.tensor, 4"));
}

}  // namespace
}  // namespace strata::spec
