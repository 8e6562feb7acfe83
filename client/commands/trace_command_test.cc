#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "client/commands/fake_cluster.h"
#include "protocol/trace_file.h"

namespace strata::client {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// A job of two ranks on two machines, whose clocks are 100 s apart: in each step rank 0 computes
// and sends, rank 1 receives and computes. Steps begin at 1000, 1001, … of the calendar.
class TraceCommandTest : public FakeClusterTest {
 protected:
  void SetUp() override {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = testing::TempDir() + "trace-command-" + test.name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    output_ = folder_ + "/out.json";
  }

  static v1::TraceHead Head(int rank) {
    v1::TraceHead head;
    head.set_rank(rank);
    head.set_ranks(2);
    head.set_stage(rank);
    head.set_epoch(1);
    head.set_first_step(11);
    head.set_boot(absl::StrCat("boot ", rank));
    head.set_clock_offset_seconds(rank == 0 ? 1000 : 900);
    v1::TracePlace& place = *head.add_place();
    place.set_axis("pipeline");
    place.set_index(rank);
    for (const char* stream : {"compute", "send", "receive"}) head.add_streams(stream);
    v1::TraceGroup& group = *head.add_groups();
    group.set_name("pipeline");
    for (const int member : {0, 1}) group.add_members(member);
    v1::TraceProgram& program = *head.add_programs();
    program.set_name("train");
    program.set_counts_steps(true);
    for (const char* label : {"forward \"block\" 0", "message"}) {
      v1::TraceInstruction& instruction = *program.add_instructions();
      instruction.set_label(label);
      instruction.set_purpose("forward");
    }
    for (const char* op : {"matmul", "softmax"}) program.add_actions()->set_op(op);
    v1::TraceAction& message = *program.add_actions();
    message.set_instruction(1);
    message.set_stream(rank == 0 ? 1 : 2);
    message.set_op(rank == 0 ? "send" : "receive");
    message.mutable_communication()->set_kind(rank == 0 ? v1::TraceCommunication::KIND_SEND
                                                        : v1::TraceCommunication::KIND_RECEIVE);
    message.mutable_communication()->set_peer(1 - rank);
    message.mutable_communication()->set_bytes(4096);
    return head;
  }

  void WriteRank(int rank, int steps) {
    auto file = protocol::TraceFile::Create(folder_, Head(rank), 32);
    ASSERT_TRUE(file.ok()) << file.status();
    const double clock = rank == 0 ? 0 : 100;
    uint64_t number = 0;
    for (int step = 0; step < steps; ++step) {
      for (int action = 0; action < 3; ++action) {
        const double begin = clock + step + 0.25 * action;
        protocol::Publish({.number = number + 1,
                           .step = step,
                           .begin = begin,
                           .end = begin + 0.25,
                           .action = action},
                          (*file)->records()[number]);
        ++number;
      }
    }
  }

  void WritePredicted() {
    v1::PredictedTrace predicted;
    predicted.set_epoch(1);
    predicted.set_costs("a test's costs");
    predicted.set_step_seconds(0.5);
    for (int stage = 0; stage < 2; ++stage) {
      v1::PredictedStage& times = *predicted.add_stages();
      for (int a = 0; a < 3; ++a) {
        times.add_begin_seconds(-0.1 + 0.1 * a);
        times.add_end_seconds(0.1 * a);
      }
    }
    ASSERT_TRUE(protocol::WritePredictedTrace(folder_, predicted).ok());
  }

  json Written() const { return json::parse(std::ifstream(output_)); }

  // Begins of the slices of that name in a process, in microseconds.
  static std::vector<double> Begins(const json& trace, int process, const std::string& name) {
    std::vector<double> begins;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "X" && event["pid"] == process && event["name"] == name) {
        begins.push_back(event["ts"]);
      }
    }
    return begins;
  }

  std::string folder_, output_;
};

TEST_F(TraceCommandTest, RanksOfSeveralMachinesAreShownOnOneClockBesideThePrediction) {
  WriteRank(0, 3);
  WriteRank(1, 3);
  WritePredicted();
  const Outcome done = RunTyped({"trace", folder_, "-o", output_});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err,
              HasSubstr("steps 11-13 of 2 ranks, measured and predicted (a test's costs)"));
  const json trace = Written();
  EXPECT_EQ(trace["otherData"]["begin_seconds_since_1970"], 1000);
  for (const int process : {1, 3}) {
    EXPECT_THAT(Begins(trace, process, "forward \"block\" 0"), ElementsAre(0, 1e6, 2e6));
    EXPECT_THAT(Begins(trace, process, "softmax"), ElementsAre(0.25e6, 1.25e6, 2.25e6));
    EXPECT_THAT(Begins(trace, process, "step 12"), ElementsAre(1e6));
  }
  for (const int process : {2, 4}) {
    EXPECT_THAT(Begins(trace, process, "message"), ElementsAre(0.2e6, 0.7e6, 1.2e6));
  }
  std::map<int, std::vector<json>> arrows;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "s" || event["ph"] == "f") arrows[event["id"]].push_back(event);
  }
  ASSERT_EQ(arrows.size(), 6u);
  for (const auto& [id, ends] : arrows) {
    ASSERT_EQ(ends.size(), 2u);
    EXPECT_EQ(ends[0]["tid"], 2);  // of the stream that sends
    EXPECT_EQ(ends[1]["tid"], 3);
    EXPECT_EQ(ends[0]["pid"].get<int>() + 2, ends[1]["pid"].get<int>());
  }
}

TEST_F(TraceCommandTest, OnlyStepsThatAllRanksHaveWholeAreKept) {
  WriteRank(0, 4);
  WriteRank(1, 3);
  Outcome done = RunTyped({"trace", folder_, "--steps", "13-14", "-o", output_});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr("the steps of which every rank has all are 11-13"));
  EXPECT_FALSE(std::filesystem::exists(output_));
  done = RunTyped({"trace", folder_, "--steps", "12", "-o", output_});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("no predicted timeline"));
  EXPECT_THAT(Begins(Written(), 3, "step 12"), ElementsAre(0));
  for (const char* wrong : {"0-3", "3-1", "x", "1-"}) {
    EXPECT_EQ(RunTyped({"trace", folder_, "--steps", wrong, "-o", output_}).code, 2) << wrong;
  }
}

TEST_F(TraceCommandTest, AJobOfTheClusterIsFoundByItsNameWhereItsDirectoryIsHere) {
  v1::Job job;
  job.set_name("jobs/long");
  job.set_directory(folder_);
  server_.Put(job);
  Outcome done = Run({"trace", "long", "-o", output_});
  EXPECT_EQ(done.code, 2);
  EXPECT_THAT(done.err, HasSubstr(absl::StrCat("no trace in ", folder_, "/trace")));
  WriteRank(0, 2);
  done = Run({"trace", "long", "-o", output_});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("ranks without a trace here: 1"));
  EXPECT_EQ(Run({"trace", "nobody", "-o", output_}).code, 5);
  EXPECT_EQ(RunTyped({"trace", "/no/such/place", "-o", output_}).code, 2);
}

}  // namespace
}  // namespace strata::client
