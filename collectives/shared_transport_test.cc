// Ranks of one process, and strangers at their doors.
#include "collectives/shared_transport.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::collectives {
namespace {

constexpr uint64_t kAllBits = ~uint64_t{0};
constexpr int kPatience = 1'000'000;  // polls
const WorldKey kKey = {.nonce = std::string(kNonceBytes, 'n'), .epoch = 7};

class SharedTransportTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    for (int rank = 0; rank < 2; ++rank) {
      absl::StatusOr<SharedDoor> door = SharedDoor::Open();
      ASSERT_TRUE(door.ok()) << door.status();
      doors_[rank] = door->name();
      auto made = SharedTransport::Create(*std::move(door), kKey, rank, 3, GetParam());
      ASSERT_TRUE(made.ok()) << made.status();
      ranks_[rank] = *std::move(made);
    }
  }

  void Connect() {
    ASSERT_TRUE(ranks_[0]->Connect(1, doors_[1]).ok());
    ASSERT_TRUE(ranks_[1]->Connect(0, doors_[0]).ok());
  }

  // Drives both until it holds.
  bool Until(const std::function<bool()>& holds) {
    for (int i = 0; i < kPatience && !holds(); ++i) {
      for (auto& rank : ranks_) {
        if (rank != nullptr) rank->Poll();
      }
    }
    return holds();
  }

  void Leave(bool answered);

  static void Fill(Transfer& transfer, int peer, uint64_t tag, std::vector<char>& bytes) {
    transfer.peer = peer;
    transfer.tag = tag;
    transfer.from = bytes.data();
    transfer.to = bytes.data();
    transfer.bytes = static_cast<int64_t>(bytes.size());
    transfer.pending = true;
  }

  std::string doors_[2];
  std::unique_ptr<SharedTransport> ranks_[2];
};

INSTANTIATE_TEST_SUITE_P(DirectlyAndInChunks, SharedTransportTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Directly" : "InChunks"; });

// More messages than there are copies, and all before the other side has even answered.
TEST_P(SharedTransportTest, MessagesSentAheadOfTheirReceives_ArriveByTagAndInOrder) {
  constexpr int kCount = 200;
  ASSERT_TRUE(ranks_[0]->Connect(1, doors_[1]).ok());
  std::vector<Transfer> sends(kCount), receives(kCount);
  std::vector<std::vector<char>> sent(kCount), received(kCount);
  const auto size = [](int i) { return i % 5 == 0 ? 300'000 + i : i % 3 == 0 ? 3000 + i : 20; };
  for (int i = 0; i < kCount; ++i) {
    sent[i].assign(size(i), static_cast<char>(i));
    Fill(sends[i], 1, i % 4, sent[i]);
    ranks_[0]->Send(&sends[i]);
  }
  ASSERT_TRUE(ranks_[1]->Connect(0, doors_[0]).ok());
  for (int tag = 3; tag >= 0; --tag) {  // another order
    for (int i = tag; i < kCount; i += 4) {
      received[i].assign(size(i), -1);
      Fill(receives[i], 0, tag, received[i]);
      ranks_[1]->Receive(&receives[i], kAllBits);
    }
  }
  EXPECT_TRUE(Until([&] {
    for (int i = 0; i < kCount; ++i) {
      if (sends[i].pending || receives[i].pending) return false;
    }
    return true;
  }));
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(sends[i].status.ok() && receives[i].status.ok());
    EXPECT_EQ(receives[i].arrived_bytes, size(i));
    EXPECT_EQ(sent[i], received[i]) << i;
  }
  EXPECT_EQ(ranks_[1]->reads_directly(0), GetParam());
}

TEST_P(SharedTransportTest, AMessageWithoutAReceive_IsFoundByProbe_AndMayBeTooLong) {
  Connect();
  std::vector<char> sent(5000, 's'), room(4000, '-');
  Transfer send, receive;
  Fill(send, 1, 0x1234, sent);
  ranks_[0]->Send(&send);
  uint64_t found = 0;
  EXPECT_TRUE(Until([&] { return ranks_[1]->Probe(0x1200, 0xff00, &found); }));
  EXPECT_EQ(found, 0x1234u);
  EXPECT_FALSE(ranks_[1]->Probe(0x1300, 0xff00, &found));
  Fill(receive, 0, 0x1200, room);
  ranks_[1]->Receive(&receive, 0xff00);
  EXPECT_TRUE(Until([&] { return !send.pending && !receive.pending; }));
  EXPECT_TRUE(receive.too_long);
  EXPECT_EQ(receive.tag, 0x1234u);
  EXPECT_EQ(room, std::vector<char>(4000, '-'));
}

void SharedTransportTest::Leave(bool answered) {
  Connect();
  if (answered) {
    ASSERT_TRUE(Until([&] { return ranks_[0]->ready(1) && ranks_[1]->ready(0); }));
  }
  std::vector<char> small(100, 's'), medium(4000, 'm'), room(4000), more(100), never(100'000);
  Transfer sends[2], receives[2], later, after;
  Fill(sends[0], 1, 1, small);
  Fill(sends[1], 1, 2, medium);
  for (Transfer& send : sends) ranks_[0]->Send(&send);
  Fill(later, 0, 3, never);
  ranks_[1]->Receive(&later, kAllBits);
  Transfer blocked;
  Fill(blocked, 0, 4, never);
  ranks_[1]->Send(&blocked);
  ranks_[0].reset();
  EXPECT_TRUE(Until([&] { return !later.pending && !blocked.pending; }));
  for (const Transfer* lost : {&later, &blocked}) {
    EXPECT_EQ(lost->status,
              absl::UnavailableError(answered ? "rank 0 was lost: its process has ended"
                                              : "rank 0 was lost: it has refused the connection, "
                                                "or is gone"));
  }
  Fill(receives[0], 0, 2, room);
  Fill(receives[1], 0, 1, more);
  Fill(after, 0, 1, more);
  for (Transfer& receive : receives) {
    ranks_[1]->Receive(&receive, kAllBits);
    EXPECT_FALSE(receive.pending);
    EXPECT_TRUE(receive.status.ok()) << receive.status;
  }
  EXPECT_EQ(room, medium);
  EXPECT_EQ(more, small);
  ranks_[1]->Receive(&after, kAllBits);
  EXPECT_TRUE(absl::StrContains(after.status.message(), "rank 0 was lost"));
}

TEST_P(SharedTransportTest, APeerThatLeaves_WhatItSentCounts_AndTheRestNamesIt) { Leave(true); }

TEST_P(SharedTransportTest, APeerThatLeavesBeforeItHasAnswered_IsNoDifferent) { Leave(false); }

// The sender may look at its peer's socket after it looked at answers, and find both at once.
TEST_P(SharedTransportTest, APeerThatLeavesWithAllOfAMessage_HasTakenIt) {
  for (int round = 0; round < 300; ++round) {
    SetUp();
    Connect();
    ASSERT_TRUE(Until([&] { return ranks_[0]->ready(1) && ranks_[1]->ready(0); }));
    std::vector<char> sent(GetParam() ? 20'000 : 3000, 's'), received(sent.size());
    Transfer send, receive;
    Fill(receive, 1, 1, received);
    ranks_[0]->Receive(&receive, kAllBits);
    Fill(send, 0, 1, sent);
    ranks_[1]->Send(&send);
    std::thread other([&] {
      while (receive.pending) ranks_[0]->Poll();
      ranks_[0].reset();
    });
    while (send.pending) ranks_[1]->Poll();
    other.join();
    ASSERT_TRUE(send.status.ok()) << "round " << round << ": " << send.status;
    ASSERT_TRUE(receive.status.ok()) << receive.status;
    ASSERT_EQ(received, sent);
  }
}

TEST_P(SharedTransportTest, Sleep_IsEndedByAMessage_AndByAPeerThatLeaves) {
  Connect();
  std::vector<char> bytes(10, 'x'), room(10);
  Transfer send, receive;
  Fill(receive, 0, 1, room);
  ranks_[1]->Receive(&receive, kAllBits);
  Fill(send, 1, 1, bytes);
  ASSERT_TRUE(Until([&] { return ranks_[0]->ready(1) && ranks_[1]->ready(0); }));
  pollfd waiting = {ranks_[1]->file(), POLLIN, 0};
  const auto sleeps_until = [&](const std::function<void()>& cause) {
    while (!ranks_[1]->BeginSleep()) {
      ranks_[1]->EndSleep(false);
      ranks_[1]->Poll();
    }
    cause();
    EXPECT_EQ(poll(&waiting, 1, 20'000), 1) << "it would sleep on";
    ranks_[1]->EndSleep(true);
  };
  sleeps_until([&] { ranks_[0]->Send(&send); });
  EXPECT_TRUE(Until([&] { return !receive.pending; }));
  Fill(receive, 0, 1, room);
  ranks_[1]->Receive(&receive, kAllBits);
  sleeps_until([&] { ranks_[0].reset(); });
  EXPECT_TRUE(Until([&] { return !receive.pending; }));
  EXPECT_FALSE(receive.status.ok());
}

// What a stranger says at rank 1's door, with the memory it brings.
struct Stranger {
  DoorSocket socket;
  common::Descriptor memory, bell{eventfd(0, EFD_CLOEXEC)};

  void Come(const std::string& door, const std::string& mark, int file) {
    auto dialed = SharedDoor::Dial(door);
    ASSERT_TRUE(dialed.ok()) << dialed.status();
    socket = *std::move(dialed);
    ASSERT_TRUE(SendPacket(socket.file.get(), mark, {file, bell.get()}));
  }
  // Empty when it was turned away.
  std::string Answer() {
    auto packet = ReceivePacket(socket.file.get(), kAnswerBytes);
    return packet.ok() ? packet->bytes : "nothing yet";
  }
};

TEST_P(SharedTransportTest, Strangers_AreRefusedWithTheReason) {
  const std::string challenge(kChallengeBytes, 'c');
  const WorldKey wrong = {.nonce = std::string(kNonceBytes, 'x'), .epoch = 7};
  const WorldKey stale = {.nonce = kKey.nonce, .epoch = 6};
  common::Descriptor good, old, other, loose(memfd_create("loose", MFD_CLOEXEC));
  const ChannelLabel label = {.epoch = 7, .from = 2, .to = 1};
  const auto channel = MappedChannel::Create(label, &good);
  const auto of_six = MappedChannel::Create({.epoch = 6, .from = 2, .to = 1}, &old);
  const auto of_zero = MappedChannel::Create({.epoch = 7, .from = 0, .to = 1}, &other);
  ASSERT_EQ(ftruncate(loose.get(), sizeof(ChannelMemory)), 0);
  const std::string mark = MakeMark(kKey, 2, 1, challenge);
  const std::tuple<std::string, int, const char*> strangers[] = {
      {MakeMark(wrong, 2, 1, challenge), good.get(), "without this epoch's nonce"},
      {MakeMark(stale, 2, 1, challenge), good.get(), "of epoch 6"},
      {"x", good.get(), "does not begin"},
      {mark, loose.get(), "sealed"},
      {mark, old.get(), "of epoch 6 from rank 2 to rank 1"},
      {mark, other.get(), "from rank 0 to rank 1"}};
  for (const auto& [words, file, why] : strangers) {
    Stranger stranger;
    stranger.Come(doors_[1], words, file);
    testing::internal::CaptureStderr();
    const int64_t before = ranks_[1]->refused();
    ASSERT_TRUE(ranks_[1]->BeginSleep());
    ranks_[1]->EndSleep(true);
    EXPECT_EQ(ranks_[1]->refused(), before + 1);
    EXPECT_EQ(stranger.Answer(), "");
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(absl::StrContains(told, "rank 1 refuses")) << told;
    EXPECT_TRUE(absl::StrContains(told, why)) << told;
  }
  Stranger rank, again;
  rank.Come(doors_[1], mark, good.get());
  ranks_[1]->EndSleep(true);
  EXPECT_TRUE(CheckAnswer(kKey, 2, 1, challenge, rank.Answer()));
  again.Come(doors_[1], mark, good.get());
  ranks_[1]->EndSleep(true);
  EXPECT_EQ(again.Answer(), "");
}

TEST_P(SharedTransportTest, AnotherUser_IsTurnedAwayAtBothEnds) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  constexpr uid_t kNobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    if (setuid(kNobody) != 0) _exit(2);
    const auto dialed = SharedDoor::Dial(doors_[1]);
    _exit(absl::IsPermissionDenied(dialed.status()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  testing::internal::CaptureStderr();
  ranks_[1]->EndSleep(true);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(absl::StrContains(told, "is of user 65534, and this rank of 0")) << told;
}

// A peer that answers its door without the nonce.
TEST_P(SharedTransportTest, WhoCannotProveItself_IsNoPeer) {
  absl::StatusOr<SharedDoor> false_door = SharedDoor::Open();
  ASSERT_TRUE(false_door.ok());
  ASSERT_TRUE(ranks_[1]->Connect(2, false_door->name()).ok());
  auto came = false_door->Accept();
  ASSERT_TRUE(came.ok() && came->file.is_open());
  const common::Descriptor bell(eventfd(0, EFD_CLOEXEC));
  ASSERT_TRUE(SendPacket(came->file.get(), std::string(kAnswerBytes, 'a'), {bell.get()}));
  std::vector<char> bytes(100'000);
  Transfer send;
  Fill(send, 2, 1, bytes);
  ranks_[1]->Send(&send);
  EXPECT_TRUE(Until([&] { return !send.pending; }));
  EXPECT_TRUE(absl::StrContains(send.status.message(), "rank 2 was lost")) << send.status;
}

}  // namespace
}  // namespace strata::collectives
