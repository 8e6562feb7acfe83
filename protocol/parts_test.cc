#include "protocol/parts.h"

#include "gtest/gtest.h"

namespace strata::protocol {
namespace {

v1::AgentMessage OfBytes(size_t bytes) {
  v1::AgentMessage message;
  message.set_incarnation(7);
  std::string text(bytes, 'x');
  for (size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>('a' + (i / 1000 + i) % 26);
  message.mutable_log()->mutable_line()->set_text(std::move(text));
  return message;
}

TEST(PartsTest, MessagesOfAnySizeComeOutAsTheyWentIn) {
  Joiner<v1::AgentMessage> joiner;
  uint64_t number = 0;
  for (const size_t bytes : {size_t{0}, size_t{10}, kPartBytes - 40, kPartBytes, kPartBytes + 1,
                             2 * kPartBytes, 5 * kPartBytes + 123}) {
    const v1::AgentMessage message = OfBytes(bytes);
    const auto pieces = Cut(message, ++number);
    ASSERT_TRUE(pieces.ok());
    for (size_t i = 0; i < pieces->size(); ++i) {
      EXPECT_LT((*pieces)[i].ByteSizeLong(), kPartBytes + 100);
      EXPECT_EQ((*pieces)[i].incarnation(), 7u);
      const auto whole = joiner.Add((*pieces)[i]);
      ASSERT_TRUE(whole.ok()) << whole.status();
      ASSERT_EQ(whole->has_value(), i + 1 == pieces->size());
      if (whole->has_value()) {
        EXPECT_EQ((*whole)->SerializeAsString(), message.SerializeAsString());
      }
    }
  }
}

TEST(PartsTest, PiecesOutOfOrderEndTheSession) {
  const auto pieces = Cut(OfBytes(3 * kPartBytes), 1);
  ASSERT_TRUE(pieces.ok());
  ASSERT_EQ(pieces->size(), 4u);
  const auto fails = [&](const std::vector<v1::AgentMessage>& sent) {
    Joiner<v1::AgentMessage> joiner;
    for (size_t i = 0; i + 1 < sent.size(); ++i) EXPECT_TRUE(joiner.Add(sent[i]).ok());
    return absl::IsInvalidArgument(joiner.Add(sent.back()).status());
  };
  EXPECT_TRUE(fails({(*pieces)[1]}));
  EXPECT_TRUE(fails({(*pieces)[0], (*pieces)[2]}));
  EXPECT_TRUE(fails({(*pieces)[0], (*pieces)[0]}));
  EXPECT_TRUE(fails({(*pieces)[0], OfBytes(1)}));
  v1::AgentMessage other = (*pieces)[1];
  other.mutable_part()->set_message(2);
  EXPECT_TRUE(fails({(*pieces)[0], other}));
  other = (*pieces)[1];
  other.mutable_part()->set_count(9);
  EXPECT_TRUE(fails({(*pieces)[0], other}));
}

TEST(PartsTest, ImpossiblePiecesAreRefused) {
  const auto refused = [](int index, int count, size_t bytes) {
    v1::MessagePart part;
    part.set_index(index);
    part.set_count(count);
    part.set_data(std::string(bytes, 'x'));
    return absl::IsInvalidArgument(PartBook().Add(part).status());
  };
  EXPECT_TRUE(refused(0, 0, 10));
  EXPECT_TRUE(refused(0, -1, 10));
  EXPECT_TRUE(refused(-1, 2, 10));
  EXPECT_TRUE(refused(0, 2, 10));  // a crumb
  EXPECT_TRUE(refused(0, 1, 0));
  EXPECT_TRUE(refused(0, 1, kPartBytes + 1));
  EXPECT_FALSE(refused(0, 1, kPartBytes));
}

TEST(PartsTest, AMessageBeyondTheLimitIsRefusedBeforeItIsHeld) {
  Joiner<v1::AgentMessage> joiner(2 * kPartBytes);
  const auto pieces = Cut(OfBytes(4 * kPartBytes), 1);
  ASSERT_TRUE(pieces.ok());
  EXPECT_TRUE(joiner.Add((*pieces)[0]).ok());
  EXPECT_TRUE(joiner.Add((*pieces)[1]).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(joiner.Add((*pieces)[2]).status()));
}

TEST(PartsTest, BytesThatAreNoMessageAreRefused) {
  v1::ControllerMessage message;
  message.mutable_part()->set_count(1);
  message.mutable_part()->set_data("\xff\xff\xff");
  EXPECT_TRUE(absl::IsInvalidArgument(Joiner<v1::ControllerMessage>().Add(message).status()));
  v1::ControllerMessage nested;
  nested.mutable_part()->set_count(1);
  message.mutable_part()->set_data(nested.SerializeAsString());
  EXPECT_TRUE(absl::IsInvalidArgument(Joiner<v1::ControllerMessage>().Add(message).status()));
}

}  // namespace
}  // namespace strata::protocol
