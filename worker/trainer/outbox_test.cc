#include "worker/trainer/outbox.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protocol/frames.h"

namespace strata::worker {
namespace {

v1::TrainerEvent Step(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_step()->set_step(step);
  return event;
}

v1::TrainerEvent Written(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_written()->set_step(step);
  return event;
}

v1::TrainerEvent Record(int64_t step) {
  v1::TrainerEvent event;
  event.mutable_record()->set_step(step);
  return event;
}

// What the present connection gets, as short texts: "step 3", "hello".
std::vector<std::string> Drain(Outbox& outbox) {
  protocol::FrameDecoder decoder;
  while (!outbox.Bytes().empty()) {
    const absl::string_view bytes = outbox.Bytes();
    const size_t size = bytes.size() < 1000 ? std::min<size_t>(bytes.size(), 7) : bytes.size();
    decoder.Add(bytes.data(), size);
    outbox.Sent(size);
  }
  std::vector<std::string> texts;
  v1::TrainerEvent event;
  for (;;) {
    const absl::StatusOr<bool> whole = decoder.Next(&event);
    EXPECT_TRUE(whole.ok());
    if (!whole.ok() || !*whole) return texts;
    switch (event.event_case()) {
      case v1::TrainerEvent::kHello:
        texts.push_back("hello");
        break;
      case v1::TrainerEvent::kPrepared:
        texts.push_back("prepared");
        break;
      case v1::TrainerEvent::kRunning:
        texts.push_back("running");
        break;
      case v1::TrainerEvent::kStep:
        texts.push_back("step " + std::to_string(event.step().step()));
        break;
      case v1::TrainerEvent::kWritten:
        texts.push_back("written " + std::to_string(event.written().step()));
        break;
      case v1::TrainerEvent::kRecord:
        texts.push_back("record " + std::to_string(event.record().step()));
        break;
      default:
        texts.push_back("other");
    }
  }
}

using Texts = std::vector<std::string>;

TEST(OutboxTest, WithoutALeaseEventsAreForgottenOnceSent) {
  Outbox outbox;
  EXPECT_TRUE(outbox.drained());
  ASSERT_TRUE(outbox.Add(Step(1)).ok());
  EXPECT_FALSE(outbox.drained());
  EXPECT_EQ(Drain(outbox), Texts({"step 1"}));
  EXPECT_TRUE(outbox.drained());
  outbox.Rewind({});
  EXPECT_EQ(Drain(outbox), Texts({"hello"}));
}

TEST(OutboxTest, WhatWasNotAcknowledgedIsRepeatedInOrder) {
  Outbox outbox;
  outbox.SetLeased();
  for (int step = 1; step <= 3; ++step) ASSERT_TRUE(outbox.Add(Step(step)).ok());
  EXPECT_EQ(Drain(outbox), Texts({"step 1", "step 2", "step 3"}));
  outbox.Acknowledge(1);
  EXPECT_FALSE(outbox.drained());
  outbox.Rewind({});
  ASSERT_TRUE(outbox.Add(Step(4)).ok());
  EXPECT_EQ(Drain(outbox), Texts({"hello", "step 2", "step 3", "step 4"}));
  outbox.Acknowledge(4);
  EXPECT_TRUE(outbox.drained());
}

TEST(OutboxTest, AConnectionThatBreaksInAFrameGetsItWholeTheNextTime) {
  Outbox outbox;
  outbox.SetLeased();
  ASSERT_TRUE(outbox.Add(Step(1)).ok());
  ASSERT_FALSE(outbox.Bytes().empty());
  outbox.Sent(3);
  outbox.Rewind({});
  EXPECT_EQ(Drain(outbox), Texts({"hello", "step 1"}));
}

TEST(OutboxTest, ANewAgentIsToldWhatItMustKnow) {
  Outbox outbox;
  outbox.SetLeased();
  v1::TrainerEvent prepared, running;
  prepared.mutable_prepared();
  running.mutable_running();
  ASSERT_TRUE(outbox.Add(prepared).ok());
  Drain(outbox);
  outbox.Acknowledge(1);
  outbox.Rewind({});
  EXPECT_EQ(Drain(outbox), Texts({"hello", "prepared"}));
  ASSERT_TRUE(outbox.Add(running).ok());
  for (int64_t step = 10; step <= 60; step += 10) ASSERT_TRUE(outbox.Add(Written(step)).ok());
  ASSERT_TRUE(outbox.Add(Record(60)).ok());
  Drain(outbox);
  outbox.Acknowledge(100);
  outbox.Rewind({});
  EXPECT_EQ(Drain(outbox), Texts({"hello", "running", "written 30", "written 40", "written 50",
                                  "written 60", "record 60"}));
  outbox.Answered(60);
  outbox.Rewind({});
  EXPECT_EQ(Drain(outbox),
            Texts({"hello", "running", "written 30", "written 40", "written 50", "written 60"}));
}

TEST(OutboxTest, AnAnswerThatComesBeforeTheAcknowledgementEndsTheAskingToo) {
  Outbox outbox;
  outbox.SetLeased();
  ASSERT_TRUE(outbox.Add(Record(10)).ok());
  Drain(outbox);
  outbox.Answered(10);
  outbox.Acknowledge(1);
  outbox.Rewind({});
  EXPECT_EQ(Drain(outbox), Texts({"hello"}));
}

TEST(OutboxTest, AcknowledgementsOfWhatWasNeverSentAreIgnored) {
  Outbox outbox;
  outbox.SetLeased();
  ASSERT_TRUE(outbox.Add(Step(1)).ok());
  outbox.Acknowledge(99);
  EXPECT_EQ(Drain(outbox), Texts({"step 1"}));
}

TEST(OutboxTest, IsFullUntilTheAgentAcknowledges) {
  Outbox outbox;
  outbox.SetLeased();
  v1::TrainerEvent large;
  large.mutable_notice()->set_text(std::string(Outbox::kFullBytes, 'x'));
  ASSERT_TRUE(outbox.Add(large).ok());
  EXPECT_TRUE(outbox.full());
  Drain(outbox);
  EXPECT_TRUE(outbox.full());
  outbox.Acknowledge(1);
  EXPECT_FALSE(outbox.full());
}

}  // namespace
}  // namespace strata::worker
