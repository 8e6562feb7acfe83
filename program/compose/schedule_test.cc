#include "program/compose/schedule.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::program {
namespace {

using ::testing::HasSubstr;

Schedule Build(const ScheduleOptions& options) {
  auto schedule = BuildSchedule(options);
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

std::string Text(const ScheduleOptions& o) {
  return "kind " + std::to_string(static_cast<int>(o.kind)) + " P " + std::to_string(o.stages) +
         " v " + std::to_string(o.virtual_stages) + " M " + std::to_string(o.micro_batches) +
         " F " + std::to_string(o.durations.forward) + " B " +
         std::to_string(o.durations.backward_input) + " W " +
         std::to_string(o.durations.backward_weight) + " in flight " + std::to_string(o.in_flight);
}

constexpr ScheduleKind kKinds[] = {ScheduleKind::kGpipe, ScheduleKind::k1F1B,
                                   ScheduleKind::kInterleaved, ScheduleKind::kZeroBubble,
                                   ScheduleKind::kZbv};

// Every kind over many shapes, durations and bounds: those that can be.
std::vector<ScheduleOptions> ManyOptions() {
  std::vector<ScheduleOptions> many;
  for (const int stages : {1, 2, 3, 4, 5, 8}) {
    for (const int chunks : {1, 2, 3, 4}) {
      for (const int micro_batches : {1, stages - 1, stages, stages + 1, 2 * stages, 4 * stages}) {
        for (const PassDurations d : {PassDurations{1, 1, 1}, {10, 12, 8}, {5, 9, 7}, {3, 3, 7}}) {
          for (const int in_flight : {0, (chunks - 1) * stages + 1, chunks * stages}) {
            for (const ScheduleKind kind : kKinds) {
              const ScheduleOptions o{kind, stages, chunks, micro_batches, d, in_flight};
              if (micro_batches >= 1 && BuildSchedule(o).ok()) many.push_back(o);
            }
          }
        }
      }
    }
  }
  return many;
}

using Times =
    std::map<std::tuple<PassKind, int, int>, ScheduledPass>;  // kind, virtual stage, micro

Times AllPasses(const ScheduleOptions& o, const Schedule& schedule) {
  Times times;
  for (int r = 0; r < o.stages; ++r) {
    int64_t free_at = 0;
    for (const ScheduledPass& pass : schedule.stages[r]) {
      EXPECT_GE(pass.begin, free_at) << Text(o);
      EXPECT_GT(pass.end, pass.begin) << Text(o);
      free_at = pass.end;
      const bool fresh =
          times
              .emplace(std::tuple{pass.kind, o.virtual_stage(r, pass.chunk), pass.micro_batch},
                       pass)
              .second;
      EXPECT_TRUE(fresh) << Text(o);
    }
    EXPECT_LE(free_at, schedule.makespan) << Text(o);
  }
  return times;
}

TEST(ScheduleTest, EveryPassOnceAndAfterWhatItNeeds) {
  for (const ScheduleOptions& o : ManyOptions()) {
    const Times times = AllPasses(o, Build(o));
    const int last = o.stages * o.virtual_stages - 1;
    ASSERT_EQ(times.size(), static_cast<size_t>(o.micro_batches) * (last + 1) * (o.split() ? 3 : 2))
        << Text(o);
    for (const auto& [key, pass] : times) {
      const auto [kind, stage, micro] = key;
      const auto after = [&](PassKind needed, int at) {
        EXPECT_GE(pass.begin, times.at({needed, at, micro}).end) << Text(o);
      };
      if (kind == PassKind::kForward && stage > 0) after(PassKind::kForward, stage - 1);
      if (kind == PassKind::kBackward) after(PassKind::kForward, stage);
      if (kind == PassKind::kBackward && stage < last) after(PassKind::kBackward, stage + 1);
      if (kind == PassKind::kBackwardWeight) after(PassKind::kBackward, stage);
    }
  }
}

TEST(ScheduleTest, MostPassesInFlightAreTheBound) {
  for (const ScheduleOptions& o : ManyOptions()) {
    const Schedule schedule = Build(o);
    for (int r = 0; r < o.stages; ++r) {
      int held = 0, most = 0;
      for (const ScheduledPass& pass : schedule.stages[r]) {
        if (pass.kind == PassKind::kForward) most = std::max(most, ++held);
        if (pass.kind == (o.split() ? PassKind::kBackwardWeight : PassKind::kBackward)) --held;
      }
      EXPECT_EQ(held, 0) << Text(o);
      EXPECT_EQ(most, InFlightBound(o, r)) << Text(o) << " stage " << r;
      EXPECT_LE(most, o.in_flight > 0 ? o.in_flight : most) << Text(o);
    }
  }
}

TEST(ScheduleTest, BoundsAreThoseOfThePapers) {
  // GPipe: all. 1F1B: stage r holds P - r. Interleaved: 2(P-1-r) + (v-1)P ahead, and one.
  // Zero-bubble: on every stage what the first one holds. ZB-V: on every stage 2P.
  EXPECT_EQ(InFlightBound({ScheduleKind::kGpipe, 4, 1, 8}, 3), 8);
  EXPECT_EQ(InFlightBound({ScheduleKind::k1F1B, 4, 1, 8}, 0), 4);
  EXPECT_EQ(InFlightBound({ScheduleKind::k1F1B, 4, 1, 8}, 3), 1);
  EXPECT_EQ(InFlightBound({ScheduleKind::k1F1B, 4, 1, 2}, 0), 2);
  EXPECT_EQ(InFlightBound({ScheduleKind::kInterleaved, 4, 2, 8}, 0), 11);
  EXPECT_EQ(InFlightBound({ScheduleKind::kInterleaved, 4, 2, 8}, 3), 5);
  EXPECT_EQ(InFlightBound({ScheduleKind::kZeroBubble, 4, 1, 8}, 3), 4);
  EXPECT_EQ(InFlightBound({ScheduleKind::kZeroBubble, 4, 2, 8}, 3), 11);
  EXPECT_EQ(InFlightBound({ScheduleKind::kZbv, 4, 2, 8}, 0), 8);
  EXPECT_EQ(InFlightBound({ScheduleKind::kZbv, 4, 2, 8}, 3), 8);
  EXPECT_EQ(InFlightBound({ScheduleKind::kZbv, 4, 2, 3}, 0), 6);
}

// Time between a stage's first pass and its last in which it does nothing.
int64_t IdleOf(const std::vector<ScheduledPass>& passes) {
  int64_t busy = 0;
  for (const ScheduledPass& pass : passes) busy += pass.end - pass.begin;
  return passes.back().end - passes.front().begin - busy;
}

// With F, B and W those of one pass of one chunk. Stage r begins when r forwards are done.
//  - GPipe (Huang et al., §2.3: bubble (P-1)/(M+P-1) of a step of M+P-1 pairs): after its last
//    forward a stage waits for P-1-r forwards and as many backwards of later ones.
//  - 1F1B (Narayanan et al., SC 2021, §2.2.1: t_pb = (p-1)(t_f + t_b)): the same wait, in parts.
//  - Interleaved (ibid., §2.2.2: t_pb / v): the same in passes of chunks, each 1/v of a stage's.
TEST(ScheduleTest, IdleTimeOfWholeBackwards_IsTheFormulaOnEveryStage) {
  for (const ScheduleOptions& o : ManyOptions()) {
    if (o.split() || o.in_flight > 0) continue;
    const Schedule schedule = Build(o);
    for (int r = 0; r < o.stages; ++r) {
      EXPECT_EQ(IdleOf(schedule.stages[r]), (o.stages - 1 - r) * o.durations.sum())
          << Text(o) << " stage " << r;
      EXPECT_EQ(schedule.stages[r].front().begin, r * o.durations.forward) << Text(o);
    }
    EXPECT_EQ(Bubble(o, schedule), (o.stages - 1) * o.durations.sum()) << Text(o);
  }
}

// Random durations with W <= F <= B, as where attention makes the backward longer.
PassDurations OrderedDurations(uint64_t index) {
  const auto words = common::Philox(7, index, 0);
  PassDurations d;
  d.backward_weight = 1 + words[0] % 20;
  d.forward = d.backward_weight + words[1] % 10;
  d.backward_input = d.forward + words[2] % 10;
  return d;
}

// ZB-H1 (Qi et al., arXiv:2401.10241, table 2: (p-1)(T_F + T_B - T_W), which is the first stage's):
// a wait of 1F1B for a later stage holds one weight gradient of that stage's less, and one of the
// own. Later stages have P-1-r such waits, of which they can fill more where passes differ.
TEST(ScheduleTest, IdleTimeOfZeroBubble_IsTheFormulaOfH1) {
  for (uint64_t i = 0; i < 300; ++i) {
    const auto words = common::Philox(8, i, 0);
    const int stages = 2 + static_cast<int>(words[0] % 7);
    const int micro_batches = stages + static_cast<int>(words[1] % (3 * stages));
    const bool alike = i % 3 == 0;
    const ScheduleOptions o{ScheduleKind::kZeroBubble, stages, 1, micro_batches,
                            alike ? PassDurations{5, 5, 5} : OrderedDurations(i)};
    const PassDurations& d = o.durations;
    const int64_t wait = d.forward + d.backward_input - d.backward_weight;
    const Schedule schedule = Build(o);
    EXPECT_EQ(Bubble(o, schedule), (stages - 1) * wait) << Text(o);
    for (int r = 0; r < stages; ++r) {
      const int64_t idle = IdleOf(schedule.stages[r]), formula = (stages - 1 - r) * wait;
      EXPECT_LE(idle, formula) << Text(o) << " stage " << r;
      EXPECT_TRUE(idle == formula || (r > 0 && !alike))
          << Text(o) << " stage " << r << ": " << idle;
    }
  }
}

// Chunks with weight gradients put off are in no paper: between H1 of a chunk and nothing. With
// passes alike, two micro-batches a stage and up to four stages it is nothing.
TEST(ScheduleTest, ZeroBubbleWithChunksIsNotWorseThanH1OfAChunk) {
  for (uint64_t i = 0; i < 200; ++i) {
    const auto words = common::Philox(9, i, 0);
    const int stages = 2 + static_cast<int>(words[0] % 7);
    const int chunks = 2 + static_cast<int>(words[1] % 3);
    const int micro_batches = stages * (1 + static_cast<int>(words[2] % 4));
    const ScheduleOptions o{ScheduleKind::kZeroBubble, stages, chunks, micro_batches,
                            OrderedDurations(i)};
    const PassDurations& d = o.durations;
    const int64_t bubble = Bubble(o, Build(o));
    EXPECT_LE(bubble, (stages - 1) * (d.forward + d.backward_input - d.backward_weight)) << Text(o);
    // The last stage waits for its first forward, whatever it does later.
    EXPECT_GE(bubble, (stages - 1) * d.forward) << Text(o);
  }
  for (int stages = 1; stages <= 4; ++stages) {
    for (int chunks = 2; chunks <= 4; ++chunks) {
      const ScheduleOptions o{ScheduleKind::kZeroBubble, stages, chunks, 2 * stages};
      for (const auto& passes : Build(o).stages) EXPECT_EQ(IdleOf(passes), 0) << Text(o);
    }
  }
}

// V-Zero (Qi et al., arXiv:2405.15362, §4: zero bubble where F = B = W).
TEST(ScheduleTest, AStageOfZbvIsNeverIdleWherePassesAreAlike) {
  for (int stages = 1; stages <= 9; ++stages) {
    for (int micro_batches = 2 * stages - 1; micro_batches <= 5 * stages; ++micro_batches) {
      const ScheduleOptions o{ScheduleKind::kZbv, stages, 2, micro_batches};
      const Schedule schedule = Build(o);
      for (int r = 0; r < stages; ++r) {
        EXPECT_EQ(IdleOf(schedule.stages[r]), 0) << Text(o) << " stage " << r;
        EXPECT_EQ(schedule.stages[r].front().begin, r) << Text(o);
      }
      EXPECT_EQ(Bubble(o, schedule), stages - 1) << Text(o);
    }
  }
}

TEST(ScheduleTest, ZbvWithOtherDurationsIsNotWorseThanOneMicroBatchFillingTheV) {
  for (uint64_t i = 0; i < 300; ++i) {
    const auto words = common::Philox(10, i, 0);
    const int stages = 2 + static_cast<int>(words[0] % 7);
    const int micro_batches = 1 + static_cast<int>(words[1] % (5 * stages));
    const ScheduleOptions o{ScheduleKind::kZbv, stages, 2, micro_batches, OrderedDurations(i)};
    const PassDurations& d = o.durations;
    EXPECT_LE(Bubble(o, Build(o)), (2 * stages - 1) * (d.forward + d.backward_input)) << Text(o);
  }
}

TEST(ScheduleTest, SplittingNeverCostsTime) {
  for (ScheduleOptions o : ManyOptions()) {
    if (o.kind != ScheduleKind::kZeroBubble) continue;
    const int64_t split = Build(o).makespan;
    o.kind = ScheduleKind::kInterleaved;
    EXPECT_LE(split, Build(o).makespan) << Text(o);
  }
}

TEST(ScheduleTest, FourStagesOfZeroBubbleAreWhatOneDrawsByHand) {
  // P = 4, M = 8, F = B = W, as in figure 3 of arXiv:2401.10241. The last stage puts weight
  // gradients off until it holds four micro-batches; the first fills its waits with them.
  const ScheduleOptions o{ScheduleKind::kZeroBubble, 4, 1, 8};
  const Schedule schedule = Build(o);
  EXPECT_EQ(schedule.makespan, 8 * 3 + 3);
  std::string first, last;
  for (const ScheduledPass& pass : schedule.stages[0]) first += "FBW"[static_cast<int>(pass.kind)];
  for (const ScheduledPass& pass : schedule.stages[3]) last += "FBW"[static_cast<int>(pass.kind)];
  EXPECT_EQ(first, "FFFFBWFBWFBWFBWFBWBWBWBW");
  EXPECT_EQ(last, "FBFBFBFBWFBWFBWFBWFBWWWW");
}

TEST(ScheduleTest, RefusesWhatCannotBe) {
  const auto message = [](const ScheduleOptions& o) {
    return std::string(BuildSchedule(o).status().message());
  };
  EXPECT_THAT(message({ScheduleKind::k1F1B, 4, 2, 8}), HasSubstr("not 2"));
  EXPECT_THAT(message({ScheduleKind::kGpipe, 4, 3, 8}), HasSubstr("not 3"));
  EXPECT_THAT(message({ScheduleKind::kZbv, 4, 1, 8}), HasSubstr("not 1"));
  EXPECT_THAT(message({ScheduleKind::kZbv, 4, 2, 8, {}, 7}),
              HasSubstr("at least 8 passes in flight, not 7"));
  EXPECT_THAT(message({ScheduleKind::kInterleaved, 4, 2, 6}),
              HasSubstr("6 micro-batches are no multiple"));
  EXPECT_THAT(message({ScheduleKind::kZeroBubble, 4, 2, 9}), HasSubstr("4 stages"));
  EXPECT_THAT(message({ScheduleKind::k1F1B, 0, 1, 8}), HasSubstr("must be positive"));
  EXPECT_THAT(message({ScheduleKind::k1F1B, 4, 1, 8, {0, 1, 1}}), HasSubstr("must be positive"));
  EXPECT_THAT(message({ScheduleKind::k1F1B, 1 << 20, 1, 1 << 20}), HasSubstr("2^24"));
  EXPECT_THAT(message({ScheduleKind::kInterleaved, 4, 2, 8, {}, 4}),
              HasSubstr("at least 5 passes in flight, not 4"));
}

}  // namespace
}  // namespace strata::program
