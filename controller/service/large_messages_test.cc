// Messages of sessions that are larger than the transport takes at once: they come in pieces.
#include <string>

#include "controller/service/testing/rpc_test_support.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

constexpr size_t kTransportLimit = size_t{4} << 20;
constexpr int kRanks = 64;

// A job of 64 ranks on one node, up to Prepared.
class LargeMessages : public testing::Test {
 protected:
  LargeMessages() : agent_(running_, "n0", 1, {}, kRanks) {
    EXPECT_TRUE(agent_.Await(v1::ControllerMessage::kWelcome, &said_));
    v1::Job job;
    v1::CreateJobRequest request = GoodRequest("a", kRanks);
    request.mutable_job()->mutable_spec()->mutable_train()->set_global_batch(kRanks);
    request.mutable_job()->mutable_spec()->mutable_train()->set_micro_batch(1);
    const grpc::Status created = running_.Create(request, &job);
    EXPECT_TRUE(created.ok()) << created.error_message();
    EXPECT_TRUE(agent_.Await(v1::ControllerMessage::kPrepare, &said_));
    epoch_ = said_.prepare().epoch();
  }
  void SayPrepared(size_t address_bytes) {
    v1::AgentMessage message;
    *message.mutable_prepared()->mutable_epoch() = epoch_;
    for (int rank = 0; rank < kRanks; ++rank) {
      v1::EpochPrepared::Rank& prepared = *message.mutable_prepared()->add_ranks();
      prepared.set_rank(rank);
      prepared.mutable_prepared()->set_address(std::string(address_bytes, static_cast<char>(rank)));
    }
    EXPECT_TRUE(agent_.Say(message));
  }
  void SayRunning() {
    v1::AgentMessage message;
    *message.mutable_running()->mutable_epoch() = epoch_;
    EXPECT_TRUE(agent_.Say(message));
  }

  RunningController running_;
  SimulatedAgent agent_;
  v1::ControllerMessage said_;
  v1::JobEpoch epoch_;
};

TEST_F(LargeMessages, TheAddressesOfManyRanksArrive) {
  SayPrepared(100'000);  // as much as those of 16,000 ranks
  ASSERT_TRUE(agent_.Await(v1::ControllerMessage::kStart, &said_));
  EXPECT_GT(said_.ByteSizeLong(), kTransportLimit);
  ASSERT_EQ(said_.start().addresses_size(), kRanks);
  EXPECT_EQ(said_.start().addresses(63), std::string(100'000, static_cast<char>(63)));
}

TEST_F(LargeMessages, AManifestOfTwentyThousandEntriesIsCommitted) {
  SayPrepared(10);
  ASSERT_TRUE(agent_.Await(v1::ControllerMessage::kStart, &said_));
  SayRunning();
  v1::AgentMessage written;
  *written.mutable_written()->mutable_epoch() = epoch_;
  written.mutable_written()->set_step(10);
  for (int rank = 0; rank < kRanks; ++rank) {
    (*written.mutable_written()->mutable_fragments())[rank] =
        std::string(20'000 / kRanks * 260, 'e');
  }
  ASSERT_GT(written.ByteSizeLong(), kTransportLimit);
  ASSERT_TRUE(agent_.Say(written));
  ASSERT_TRUE(agent_.Await(v1::ControllerMessage::kWriteManifest, &said_));
  ASSERT_EQ(said_.write_manifest().fragments_size(), kRanks);
  EXPECT_EQ(said_.write_manifest().fragments(0), written.written().fragments().at(0));
  v1::AgentMessage commit;
  *commit.mutable_commit()->mutable_epoch() = epoch_;
  commit.mutable_commit()->mutable_checkpoint()->set_epoch(epoch_.epoch());
  commit.mutable_commit()->mutable_checkpoint()->set_step(10);
  commit.mutable_commit()->mutable_checkpoint()->set_path("/c/step-00000010");
  commit.mutable_commit()->mutable_checkpoint()->set_manifest_digest("m");
  ASSERT_TRUE(agent_.Say(commit));
  ASSERT_TRUE(agent_.Await(v1::ControllerMessage::kCommit, &said_));
  EXPECT_TRUE(said_.commit().accepted()) << said_.commit().reason();
}

TEST_F(LargeMessages, PiecesThatMakeNoMessageEndTheSession) {
  v1::AgentMessage piece;
  piece.set_incarnation(1);
  piece.mutable_part()->set_message(1);
  piece.mutable_part()->set_index(1);
  piece.mutable_part()->set_count(2);
  piece.mutable_part()->set_data("x");
  ASSERT_TRUE(agent_.stream().Write(piece));
  EXPECT_FALSE(agent_.Await(v1::ControllerMessage::kDismiss, &said_));
  EXPECT_EQ(agent_.Finish().error_code(), grpc::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace strata::controller
