#include "controller/simulator/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace strata::simulator {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kHead[] = "name,submit_seconds,ranks,tensor,steps,seconds_per_step\n";

std::string ErrorOf(const std::string& text) {
  const auto jobs = ReadTrace("t.csv", text, {});
  return jobs.ok() ? "" : std::string(jobs.status().message());
}

TEST(ReadTrace, GivesJobsWithTheirDefaults) {
  const auto jobs = ReadTrace("t.csv",
                              "# two jobs\r\nname, submit_seconds,nodes,tensor,steps,"
                              "seconds_per_step,priority,checkpoint_interval\r\n"
                              "a, 0, 2, 8, 1k, 9.5, 5, 60\r\n\r\nb,10,1,4,7,1,,\r\n",
                              {.devices = 8, .checkpoint_interval = 300});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_THAT(*jobs, SizeIs(2));
  EXPECT_EQ((*jobs)[0].name, "a");
  EXPECT_EQ((*jobs)[0].ranks(), 16);
  EXPECT_EQ((*jobs)[0].data, 2);
  EXPECT_EQ((*jobs)[0].steps, 1000);
  EXPECT_EQ((*jobs)[0].priority, 5);
  EXPECT_EQ((*jobs)[0].checkpoint_interval, 60);
  EXPECT_EQ((*jobs)[1].data, 2);
  EXPECT_EQ((*jobs)[1].priority, 0);
  EXPECT_EQ((*jobs)[1].checkpoint_interval, 300);
  EXPECT_FALSE((*jobs)[1].cancel_seconds.has_value());
}

TEST(ReadTrace, JobsHaveContextAndShardGroups) {
  const auto jobs = ReadTrace("t.csv",
                              "name,submit_seconds,ranks,tensor,context,pipeline,shard_group,steps,"
                              "seconds_per_step\na,0,96,2,2,3,4,10,1\n",
                              {});
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  const SimJob& job = jobs->front();
  EXPECT_EQ(job.data, 8);
  EXPECT_EQ(job.ranks(), 96);
  const v1::ParallelSpec parallel = RequestOf(job).job().spec().parallel();
  EXPECT_EQ(parallel.context(), 2);
  EXPECT_EQ(parallel.shard_group(), 4);
  EXPECT_THAT(
      ErrorOf("name,submit_seconds,data,shard_group,steps,seconds_per_step\na,0,8,3,10,1\n"),
      HasSubstr("t.csv:2:7: shard_group: 3 does not divide the data degree, 8"));
  EXPECT_THAT(ErrorOf("name,submit_seconds,data,context,tensor,pipeline,steps,seconds_per_step\n"
                      "a,0,1000000,1000000,1000000,1000000,10,1\n"),
              HasSubstr("t.csv:2:1: a job of more than 1048576 ranks"));
}

TEST(ReadTrace, TellsAWrongCellAtItsPlace) {
  EXPECT_THAT(ErrorOf(std::string(kHead) + "a,0,8,1,10,1\nb,0,8,1, ten,1\n"),
              HasSubstr("t.csv:3:10: steps: ten: "));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "a,-1,8,1,10,1\n"),
              HasSubstr("t.csv:2:3: submit_seconds: -1 is not from 0 to"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "a,0,8,1,10,nan\n"),
              HasSubstr("t.csv:2:12: seconds_per_step: nan"));
}

TEST(ReadTrace, TellsAllProblemsAtOnce) {
  const std::string error =
      ErrorOf(std::string(kHead) + "A_,0,8,1,10,1\na,0,8,3,10,1\na,0,8,1,,1\n");
  EXPECT_THAT(error, HasSubstr("t.csv:2:1: name: A_ is no job's name"));
  EXPECT_THAT(error,
              HasSubstr("t.csv:3:5: ranks: 8 ranks are no multiple of tensor 3 times context 1"));
  EXPECT_THAT(error, HasSubstr("t.csv:4:1: steps: the cell is empty"));
  EXPECT_THAT(error, HasSubstr("t.csv:4:1: name: there is a job a already"));
}

TEST(ReadTrace, ChecksTheColumns) {
  EXPECT_THAT(ErrorOf("name,submit_second,ranks,steps,seconds_per_step\n"),
              HasSubstr("t.csv:1:6: submit_second: unknown column — did you mean submit_seconds?"));
  EXPECT_THAT(ErrorOf("name,name,submit_seconds,ranks,steps,seconds_per_step\n"),
              HasSubstr("t.csv:1:6: name: the column is named twice"));
  EXPECT_THAT(ErrorOf("name,submit_seconds,steps,seconds_per_step\n"),
              HasSubstr("t.csv:1:1: nodes: a job's size is missing"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "a,0,8\n"), HasSubstr("3 cells"));
}

TEST(ReadTrace, RefusesASizeGivenTwice) {
  EXPECT_THAT(ErrorOf("name,submit_seconds,ranks,nodes,steps,seconds_per_step\na,0,8,1,1,1\n"),
              HasSubstr("t.csv:2:1: nodes: the job has more than one size"));
}

TEST(ReadTrace, RefusesFilesWithoutJobsAndQuotes) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("no line with the columns' names"));
  EXPECT_THAT(ErrorOf(kHead), HasSubstr("no job"));
  EXPECT_THAT(ErrorOf(std::string(kHead) + "\"a\",0,8,1,10,1\n"),
              HasSubstr("t.csv:2:1: a quotation mark"));
}

}  // namespace
}  // namespace strata::simulator
