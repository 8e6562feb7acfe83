#include "protocol/step_record.h"

#include <limits>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace strata::protocol {
namespace {

TEST(StepLineTest, NumbersReadBackToTheSameBits) {
  v1::StepRecord record;
  record.set_step(3);
  record.set_loss(5.5451774444795623);
  record.set_grad_norm(1.0 / 3.0);
  record.set_learning_rate(5e-324);
  record.set_seconds(0.1);
  record.set_validation_loss(1.7976931348623157e308);
  v1::TierMemory* const host = record.add_memory();
  host->set_tier("host");
  host->set_predicted_bytes(1LL << 60);
  v1::PurposeSeconds* const reduce = record.add_purposes();
  reduce->set_purpose("reduce");
  reduce->set_exposed_seconds(0.1);
  const nlohmann::json read = nlohmann::json::parse(StepLine(record, ""));
  EXPECT_EQ(read["loss"].get<double>(), record.loss());
  EXPECT_EQ(read["grad_norm"].get<double>(), record.grad_norm());
  EXPECT_EQ(read["learning_rate"].get<double>(), record.learning_rate());
  EXPECT_EQ(read["seconds"].get<double>(), record.seconds());
  EXPECT_EQ(read["validation_loss"].get<double>(), record.validation_loss());
  EXPECT_EQ(read["memory"]["host"]["predicted_bytes"].get<int64_t>(), 1LL << 60);
  EXPECT_EQ(read["purposes"]["reduce"]["exposed_seconds"].get<double>(), 0.1);
  EXPECT_FALSE(read.contains("predicted_seconds"));
  EXPECT_FALSE(read["purposes"]["reduce"].contains("predicted"));
  const auto again = ParseStepLine(StepLine(record, "u"), "u");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->SerializeAsString(), record.SerializeAsString());
}

TEST(StepLineTest, PredictionsStandBesideWhatWasMeasured) {
  v1::StepRecord record;
  record.set_predicted_seconds(0.5);
  v1::PurposeSeconds* const reduce = record.add_purposes();
  reduce->set_purpose("reduce");
  reduce->set_exposed_seconds(0.1);
  reduce->set_predicted_compute_seconds(0);
  reduce->set_predicted_exposed_seconds(0.2);
  reduce->set_predicted_background_seconds(0.3);
  const nlohmann::json read = nlohmann::json::parse(StepLine(record, ""));
  EXPECT_EQ(read["predicted_seconds"].get<double>(), 0.5);
  EXPECT_EQ(read["purposes"]["reduce"]["exposed_seconds"].get<double>(), 0.1);
  EXPECT_EQ(read["purposes"]["reduce"]["predicted"]["exposed_seconds"].get<double>(), 0.2);
  const auto again = ParseStepLine(StepLine(record, ""), "");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->purposes(0).predicted_background_seconds(), 0.3);
  EXPECT_EQ(again->predicted_seconds(), 0.5);
}

TEST(StepLineTest, TrafficAndPagesReadBackWhole) {
  v1::StepRecord record;
  v1::TierMemory& host = *record.add_memory();
  host.set_tier("host");
  host.set_locked_bytes(0);
  host.set_huge_bytes(2 << 20);
  host.set_misplaced_bytes(4096);
  host.set_lacks("not \"locked\"");
  v1::TierMemory& ssd = *record.add_memory();
  ssd.set_tier("ssd");
  ssd.set_read_bytes(1);
  ssd.set_written_bytes(2);
  ssd.set_total_read_bytes(3);
  ssd.set_total_written_bytes(4);
  ssd.set_write_rate(1e9 / 3);
  ssd.set_busiest_read_bytes(5);
  ssd.set_busiest_written_bytes(6);
  ssd.set_processor_seconds(0.1);
  v1::PathTraffic& path = *ssd.add_paths();
  path.set_path("/scratch/\"a\"");
  path.set_read_bytes(7);
  path.set_written_bytes(8);
  path.set_total_read_bytes(9);
  path.set_total_written_bytes(10);
  path.set_read_seconds(0.3);
  path.set_write_seconds(0.7);
  path.set_mean_queue_depth(7.5);
  path.set_most_queue_depth(16);
  v1::Transfer& transfer = *record.add_transfers();
  transfer.set_stream("ssd-read");
  transfer.set_bytes(11);
  transfer.set_total_bytes(12);
  transfer.set_seconds(0.9);
  transfer.set_stall_seconds(0.6);
  const std::string line = StepLine(record, "u");
  const nlohmann::json read = nlohmann::json::parse(line);
  EXPECT_EQ(read["memory"]["host"]["misplaced_bytes"].get<int64_t>(), 4096);
  EXPECT_EQ(read["memory"]["ssd"]["paths"]["/scratch/\"a\""]["mean_queue_depth"].get<double>(),
            7.5);
  EXPECT_EQ(read["memory"]["ssd"]["paths"]["/scratch/\"a\""]["read_stall_seconds"].get<double>(),
            0.6);
  EXPECT_FALSE(read["memory"]["ssd"].contains("locked_bytes"));
  EXPECT_EQ(read["transfers"]["ssd-read"]["stall_seconds"].get<double>(), 0.6);
  const auto again = ParseStepLine(line, "u");
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->SerializeAsString(), record.SerializeAsString());
}

TEST(StepLineTest, ALossThatIsNotFiniteIsNull) {
  v1::StepRecord record;
  record.set_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(nlohmann::json::parse(StepLine(record, ""))["loss"].is_null());
}

TEST(StepLineTest, IsReadBackAndDamagedOnesAreNone) {
  const auto record = ParseStepLine(
      R"({"step": 7, "loss": 2.5, "grad_norm": null, "learning_rate": 1e-3, "tokens": 64,)"
      R"( "seconds": 0.25, "epoch": 3, "applied": 6, "exposed_communication_seconds": 0.125,)"
      R"( "validation_loss": 2.25, "memory": {"host": {"predicted_bytes": 10, "arena_bytes": 11,)"
      R"( "measured_bytes": 12, "overhead_bytes": 13}},)"
      R"( "purposes": {"reduce": {"compute_seconds": 0, "exposed_seconds": 0.5,)"
      R"( "background_seconds": 1}, "forward": 7}})",
      "");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->step(), 7);
  EXPECT_EQ(record->loss(), 2.5);
  EXPECT_NE(record->grad_norm(), record->grad_norm()) << "NaN";
  EXPECT_EQ(record->epoch(), 3);
  EXPECT_EQ(record->validation_loss(), 2.25);
  EXPECT_FALSE(record->has_predicted_seconds());
  ASSERT_EQ(record->memory_size(), 1);
  EXPECT_EQ(record->memory(0).measured_bytes(), 12);
  ASSERT_EQ(record->purposes_size(), 1);
  EXPECT_EQ(record->purposes(0).purpose(), "reduce");
  EXPECT_EQ(record->purposes(0).exposed_seconds(), 0.5);
  for (const char* bad : {"", "{", "[]", "7", "{\"step\": \"x\"}", "{\"loss\": 1}", "\xff\xfe",
                          "{\"step\": 1e400}"}) {
    EXPECT_FALSE(ParseStepLine(bad, "").has_value()) << bad;
  }
}

TEST(StepLineTest, OfAnotherJobIsNone) {
  const std::string line = R"({"step": 7, "epoch": 2, "job_uid": "u"})";
  EXPECT_TRUE(ParseStepLine(line, "u").has_value());
  EXPECT_FALSE(ParseStepLine(line, "v").has_value());
  EXPECT_FALSE(ParseStepLine(line, "").has_value());
  EXPECT_FALSE(ParseStepLine(R"({"step": 7})", "u").has_value());
  EXPECT_EQ(EpochOfLine(line, "u"), 2);
  EXPECT_EQ(EpochOfLine(line, "v"), std::nullopt);
  EXPECT_EQ(EpochOfLine(R"({"step": 7, "epoch": 2})", "u"), 2);
}

}  // namespace
}  // namespace strata::protocol
