#include "collectives/connection_mark.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace strata::collectives {
namespace {

const WorldKey kKey = {.nonce = std::string(kNonceBytes, 'n'), .epoch = 7};
const std::string kChallenge(kChallengeBytes, 'c');

TEST(ConnectionMarkTest, AMemberIsKnown) {
  const std::string mark = MakeMark(kKey, 3, 1, kChallenge);
  ASSERT_EQ(mark.size(), kMarkBytes);
  const auto marked = CheckMark(kKey, 1, 4, mark);
  ASSERT_TRUE(marked.ok()) << marked.status();
  EXPECT_EQ(marked->from, 3);
  EXPECT_EQ(marked->challenge, kChallenge);
  const std::string answer = MakeAnswer(kKey, 3, 1, kChallenge);
  ASSERT_EQ(answer.size(), kAnswerBytes);
  EXPECT_TRUE(CheckAnswer(kKey, 3, 1, kChallenge, answer));
}

void ExpectRefused(const std::string& mark, const char* why) {
  const auto marked = CheckMark(kKey, 1, 4, mark);
  EXPECT_TRUE(absl::IsPermissionDenied(marked.status())) << why;
  EXPECT_TRUE(absl::StrContains(marked.status().message(), why)) << marked.status();
}

TEST(ConnectionMarkTest, OthersAreRefusedAndItSaysWhy) {
  const WorldKey other = {.nonce = std::string(kNonceBytes, 'x'), .epoch = 7};
  const WorldKey stale = {.nonce = kKey.nonce, .epoch = 6};
  ExpectRefused("", "begin");
  ExpectRefused("GET / HTTP/1.1", "begin");
  ExpectRefused(MakeMark(other, 3, 1, kChallenge), "nonce");
  ExpectRefused(MakeMark(stale, 3, 1, kChallenge), "epoch 6");
  ExpectRefused(MakeMark(kKey, 3, 2, kChallenge), "to rank 2");
  ExpectRefused(MakeMark(kKey, 1, 1, kChallenge), "from rank 1");
  ExpectRefused(MakeMark(kKey, 4, 1, kChallenge), "from rank 4");
}

TEST(ConnectionMarkTest, EveryBitCounts) {
  const std::string mark = MakeMark(kKey, 3, 1, kChallenge);
  const std::string answer = MakeAnswer(kKey, 3, 1, kChallenge);
  for (size_t bit = 0; bit < 8 * kMarkBytes; ++bit) {
    std::string changed = mark;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(CheckMark(kKey, 1, 4, changed).ok()) << bit;
  }
  for (size_t bit = 0; bit < 8 * kAnswerBytes; ++bit) {
    std::string changed = answer;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(CheckAnswer(kKey, 3, 1, kChallenge, changed)) << bit;
  }
}

// Who is sent a mark cannot send it, or what follows from it, back as its own.
TEST(ConnectionMarkTest, TheTwoDirectionsDiffer) {
  const std::string mark = MakeMark(kKey, 3, 1, kChallenge);
  EXPECT_FALSE(CheckAnswer(kKey, 3, 1, kChallenge, MakeAnswer(kKey, 1, 3, kChallenge)));
  EXPECT_FALSE(CheckAnswer(kKey, 3, 1, kChallenge, mark.substr(kMarkBytes - kAnswerBytes)));
  EXPECT_FALSE(CheckAnswer(kKey, 3, 1, std::string(kChallengeBytes, 'd'),
                           MakeAnswer(kKey, 3, 1, kChallenge)));
}

}  // namespace
}  // namespace strata::collectives
