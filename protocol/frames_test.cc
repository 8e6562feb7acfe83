#include "protocol/frames.h"

#include <string>

#include "common/rng.h"
#include "gtest/gtest.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::protocol {
namespace {

v1::TrainerEvent Text(const std::string& text) {
  v1::TrainerEvent event;
  event.mutable_notice()->set_text(text);
  return event;
}

TEST(FrameTest, MessagesComeOutInOrderHoweverTheStreamIsCut) {
  std::string stream;
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(AppendFrame(Text(std::string(i * 37, 'x')), &stream).ok());
  }
  for (const size_t piece : {1, 3, 64, 100'000}) {
    FrameDecoder decoder;
    int count = 0;
    for (size_t at = 0; at < stream.size(); at += piece) {
      decoder.Add(stream.data() + at, std::min(piece, stream.size() - at));
      for (;;) {
        v1::TrainerEvent event;
        const absl::StatusOr<bool> found = decoder.Next(&event);
        ASSERT_TRUE(found.ok());
        if (!*found) break;
        EXPECT_EQ(event.notice().text().size(), static_cast<size_t>(count * 37));
        ++count;
      }
    }
    EXPECT_EQ(count, 50);
    EXPECT_EQ(decoder.pending(), 0u);
  }
}

TEST(FrameTest, AnEmptyMessageIsAFrame) {
  std::string stream;
  ASSERT_TRUE(AppendFrame(v1::TrainerEvent(), &stream).ok());
  FrameDecoder decoder;
  decoder.Add(stream.data(), stream.size());
  v1::TrainerEvent event;
  const absl::StatusOr<bool> found = decoder.Next(&event);
  ASSERT_TRUE(found.ok());
  EXPECT_TRUE(*found);
}

TEST(FrameTest, AnIncompleteFrameStaysPending) {
  std::string stream;
  ASSERT_TRUE(AppendFrame(Text("half"), &stream).ok());
  FrameDecoder decoder;
  decoder.Add(stream.data(), stream.size() - 1);
  v1::TrainerEvent event;
  const absl::StatusOr<bool> found = decoder.Next(&event);
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(*found);
  EXPECT_EQ(decoder.pending(), stream.size() - 1);
}

TEST(FrameTest, ALengthBeyondTheLimitIsRefusedBeforeItsBytesArrive) {
  FrameDecoder decoder;
  decoder.Add("\xff\xff\xff\xff", 4);
  v1::TrainerEvent event;
  EXPECT_EQ(decoder.Next(&event).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FrameTest, BytesThatAreNoMessageAreRefused) {
  FrameDecoder decoder;
  decoder.Add(std::string("\x02\0\0\0\xff\xff", 6).data(), 6);
  v1::TrainerEvent event;
  EXPECT_EQ(decoder.Next(&event).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(FrameTest, RandomBytesNeverCrash) {
  for (uint64_t round = 0; round < 2000; ++round) {
    std::string bytes(round % 97, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(common::MixBits(round, i));
    }
    if (bytes.size() > 3) bytes[1] = bytes[2] = bytes[3] = '\0';  // a length that fits
    FrameDecoder decoder;
    decoder.Add(bytes.data(), bytes.size());
    v1::TrainerEvent event;
    for (int frames = 0; frames < 100; ++frames) {
      const absl::StatusOr<bool> found = decoder.Next(&event);
      if (!found.ok() || !*found) break;
    }
  }
}

}  // namespace
}  // namespace strata::protocol
