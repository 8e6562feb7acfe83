// Of planner/search/auto_layout.h, with jobs as their files write them, which the planner does not
// read.
#include "planner/search/auto_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "spec/defaults.h"
#include "spec/job_file.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

using planner::AutoRequest;
using planner::Candidate;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A job file of a small model with `rest` in it, and how candidates of it are read.
class AutoLayoutTest : public ::testing::Test {
 protected:
  spec::JobFile Read(const std::vector<std::string>& settings, spec::Problems& problems) {
    return spec::ReadJob(text_, {.settings = settings}, problems);
  }
  absl::StatusOr<std::vector<Candidate>> Rank(const std::string& rest, int64_t memory_bytes = 0) {
    return Rank(rest, AutoRequest{.memory_bytes = memory_bytes});
  }
  absl::StatusOr<std::vector<Candidate>> Rank(const std::string& rest, AutoRequest request) {
    text_ = absl::StrCat(model_, "data: {train: [{path: t}]}\n", rest);
    spec::Problems problems("job.yaml");
    const spec::JobFile file = Read({}, problems);
    EXPECT_TRUE(problems.empty()) << problems.ToString();
    EXPECT_TRUE(planner::LeavesToDecide(file.job));
    request.job = &file.job;
    request.micro_batch_given = file.positions.Has("train.micro_batch");
    request.read = [&](const std::vector<std::string>& settings) -> absl::StatusOr<v1::JobSpec> {
      spec::Problems found("job.yaml");
      v1::JobSpec job = Read(settings, found).job;
      if (!found.empty()) return found.ToStatus();
      spec::ClosePlaces(job);
      return job;
    };
    request.costs = &costs_;
    return RankLayouts(request);
  }
  static std::vector<std::string> Texts(const std::vector<Candidate>& candidates) {
    std::vector<std::string> texts;
    for (const Candidate& candidate : candidates) texts.push_back(candidate.words.ToText());
    return texts;
  }

  std::string model_ =
      "model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, vocab: 256}\n";
  std::string text_;
  program::RateCostModel costs_{{}};
};

constexpr char kTiers[] = "memory: {device: 8GiB}\n";

// 134 M parameters: buffers of collectives and ranges of updates are little beside their state.
constexpr char kLarger[] =
    "model: {family: llama, layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 1024}\n";

constexpr char kTwoRanks[] =
    "train: {sequence: 32, global_batch: 8}\nparallel: auto\nresources: {ranks: 2}\n";

TEST_F(AutoLayoutTest, EveryKindOfParallelismOfTwoRanks_IsLookedAtAndTheFastestComesFirst) {
  const auto ranked = Rank(kTwoRanks);
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  for (const char* word : {"data 2", "zero1", "zero2", "zero3", "tensor 2", "context 2",
                           "pipeline 2", "micro_batch 4"}) {
    EXPECT_THAT(Texts(*ranked), Contains(HasSubstr(word)));
  }
  for (size_t i = 1; i < ranked->size(); ++i) {
    EXPECT_GE((*ranked)[i].seconds, (*ranked)[i - 1].seconds) << (*ranked)[i].words.ToText();
  }
}

TEST_F(AutoLayoutTest, SameJob_HasTheSameAnswer) {
  EXPECT_EQ(Texts(*Rank(kTwoRanks)), Texts(*Rank(kTwoRanks)));
}

TEST_F(AutoLayoutTest, MicroBatchThatTheFileGives_StaysAndLimitsTheOthers) {
  const auto ranked = Rank(
      "train: {sequence: 32, global_batch: 8, micro_batch: 8}\nparallel: auto\n"
      "resources: {ranks: 2}\n");
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  // Two data-parallel ranks have four sequences each.
  EXPECT_THAT(Texts(*ranked), Not(Contains(HasSubstr("data 2"))));
  for (const Candidate& each : *ranked) EXPECT_EQ(each.settings.size(), 1u) << each.words.ToText();
}

TEST_F(AutoLayoutTest, MicroBatchAlone_IsDecidedInTheGivenLayout) {
  const auto ranked = Rank("train: {sequence: 32, global_batch: 8, micro_batch: auto}\n");
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  EXPECT_THAT(Texts(*ranked), Contains("micro_batch 8"));
  EXPECT_EQ((*ranked)[0].settings.size(), 1u);
}

TEST_F(AutoLayoutTest, LittleMemory_LeavesWhatFitsFirstAndTriesRecompute) {
  const std::vector<Candidate> all = *Rank(kTwoRanks);
  int64_t least = all[0].bytes;
  for (const Candidate& candidate : all) least = std::min(least, candidate.bytes);
  const std::vector<Candidate> tight = *Rank(kTwoRanks, least);
  EXPECT_TRUE(tight.front().fits);
  EXPECT_LE(tight.front().bytes, least);
  EXPECT_THAT(Texts(*Rank(kTwoRanks, 1)), Contains(HasSubstr("recompute full")));
}

TEST_F(AutoLayoutTest, RoomOfNodes_IsOfEachRank_AndWhatHasNoneComesLastByHowMuchItLacks) {
  const std::vector<Candidate> all = *Rank(kTwoRanks);
  int64_t least = all[0].rank_host;
  for (const Candidate& each : all) {
    EXPECT_GE(2 * each.rank_host, each.bytes) << each.words.ToText();
    EXPECT_EQ(each.rank_device, 0);
    least = std::min(least, each.rank_host);
  }
  const std::vector<Candidate> tight =
      *Rank(kTwoRanks, AutoRequest{.room = {.host = least, .host_node = "n"}});
  EXPECT_TRUE(tight.front().fits);
  for (const Candidate& each : tight) EXPECT_EQ(each.has_room, each.rank_host <= least);
  const planner::RankRoom little{.host = 1024, .host_node = "n"};
  const std::vector<Candidate> none = *Rank(kTwoRanks, AutoRequest{.room = little});
  EXPECT_THAT(none.front().words.ToText(), HasSubstr("recompute full"));
  for (size_t i = 0; i < none.size(); ++i) {
    EXPECT_FALSE(none[i].has_room);
    EXPECT_GE(none[i].rank_host, none.front().rank_host);
  }
  EXPECT_THAT(planner::WhyNoRoom(none.front(), little),
              HasSubstr("of the host's memory, and n has 1.00 KiB for each rank"));
}

TEST_F(AutoLayoutTest, OfAccelerators_ADeviceHasWhatTheRuntimeTakesBesideItsArena) {
  constexpr char kGpu[] =
      "train: {sequence: 32, global_batch: 8}\nparallel: auto\nresources: {ranks: 2, device: "
      "h100}\n";
  const planner::RankRoom card{.device = int64_t{80} << 30, .device_node = "n", .kind = "h100"};
  const std::vector<Candidate> large = *Rank(kGpu, AutoRequest{.room = card});
  EXPECT_TRUE(large.front().fits);
  EXPECT_GT(large.front().rank_device, int64_t{500} << 20);  // a context and communicators
  const planner::RankRoom small{.device = 500'000'000, .device_node = "n", .kind = "h100"};
  const std::vector<Candidate> none = *Rank(kGpu, AutoRequest{.room = small});
  EXPECT_FALSE(none.front().has_room);
  EXPECT_THAT(planner::WhyNoRoom(none.front(), small),
              HasSubstr("of a device, and those of n have"));
}

TEST_F(AutoLayoutTest, OfManyRanksOnAKnownKind_OnlyTheFastestByTheClosedFormAreComposed) {
  model_ = kLarger;
  const planner::RankRoom card{.device = int64_t{80} << 30, .device_node = "n", .kind = "h100"};
  int64_t known = 0;
  AutoRequest request{.room = card, .device = "h100"};
  request.on_progress = [&](int64_t, int64_t of) { known = std::max(known, of); };
  const auto ranked = Rank(
      "train: {sequence: 4096, global_batch: 64, micro_batch: 1}\nparallel: auto\n"
      "resources: {ranks: 64, device: h100}\n",
      request);
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  EXPECT_GT(known, 2 * planner::kFinalists);
  // Of those that keep everything, and of those that recompute.
  EXPECT_LE(ranked->size(), static_cast<size_t>(2 * planner::kFinalists));
  EXPECT_THAT(Texts(*ranked), Contains(StartsWith("data 64")));
}

TEST_F(AutoLayoutTest, LimitOfARanksDevice_IsKept) {
  const auto ranked = Rank(std::string(kTwoRanks) + "memory: {device: 1KiB}\n");
  ASSERT_TRUE(ranked.ok()) << ranked.status();
  EXPECT_THAT(ranked->front().lacks, HasSubstr("of a device, and memory.device is 1.00 KiB"));
  for (size_t i = 0; i < ranked->size(); ++i) {
    EXPECT_FALSE((*ranked)[i].fits) << (*ranked)[i].words.ToText();
    if (i > 0) {
      EXPECT_GE((*ranked)[i].rank_arena, (*ranked)[i - 1].rank_arena);
    }
  }
  EXPECT_TRUE(Rank(std::string(kTwoRanks) + "memory: {device: 1GiB}\n")->front().fits);
}

// What the fullest rank of some layout has where kernels compute.
int64_t LeastArena(const std::vector<Candidate>& candidates) {
  int64_t least = candidates.front().rank_arena;
  for (const Candidate& each : candidates) least = std::min(least, each.rank_arena);
  return least;
}

TEST_F(AutoLayoutTest, PlacesLeftOpen_AreTheDeviceWhereItHasRoom) {
  const std::vector<Candidate> ranked =
      *Rank(std::string(kTwoRanks) + "memory: {device: 1GiB, place: auto}\n");
  for (const Candidate& each : ranked) {
    EXPECT_TRUE(each.words.memory.empty());
    EXPECT_THAT(each.settings, Contains("memory.place={parameters: device}"));
  }
  const std::vector<Candidate> without = *Rank(kTwoRanks);
  EXPECT_EQ(ranked.front().words.ToText(), without.front().words.ToText());
}

TEST_F(AutoLayoutTest, PlacesLeftOpen_MoveNoMoreThanWhatFits) {
  model_ = kLarger;
  const std::string limited =
      absl::StrCat(kTwoRanks, "memory: {place: auto, device: ",
                   LeastArena(*Rank(absl::StrCat(kTwoRanks, kTiers))) * 9 / 10, "}\n");
  const std::vector<Candidate> ranked = *Rank(limited);
  ASSERT_TRUE(ranked.front().fits) << ranked.front().words.ToText();
  for (const Candidate& each : ranked) {
    if (!each.fits) continue;
    EXPECT_GE(each.seconds, ranked.front().seconds);
    // Of recompute and the first step, which something fits in.
    EXPECT_FALSE(each.words.ToText().find("parameters on host") != std::string::npos);
  }
  spec::Problems none("job.yaml");
  const v1::JobSpec job = Read(ranked.front().settings, none).job;
  EXPECT_TRUE(none.empty()) << none.ToString();
  EXPECT_FALSE(job.memory().place().automatic());
  EXPECT_GT(job.memory().device(), 0);
}

TEST_F(AutoLayoutTest, PlacesLeftOpen_StreamLayersWhereNothingElseFits) {
  model_ = kLarger;
  const std::vector<Candidate> ranked =
      *Rank(absl::StrCat(kTwoRanks, "memory: {place: auto, device: 240MiB}\n"));
  ASSERT_TRUE(ranked.front().fits) << ranked.front().rank_arena;
  EXPECT_THAT(ranked.front().words.ToText(), HasSubstr("parameters on host"));
}

TEST_F(AutoLayoutTest, PlacesLeftOpen_AreDisksWhereTheHostIsTooSmall) {
  model_ = kLarger;
  const auto rank = [&](const char* size) {
    return *Rank(absl::StrCat("train: {sequence: 32, global_batch: 2}\nparallel: {data: 2}\n",
                              "memory: {place: auto, device: 1GiB, host: 512MiB, ssd: [{path: /s, ",
                              "size: ", size, "}]}\nresources: {ranks: 2}\n"));
  };
  const std::vector<Candidate> enough = rank("8GiB");
  ASSERT_TRUE(enough.front().fits);
  EXPECT_THAT(enough.front().words.ToText(), HasSubstr("optimizer on ssd"));
  const std::vector<Candidate> little = rank("1MiB");
  EXPECT_FALSE(little.front().fits);
  EXPECT_THAT(Texts(little), Contains(HasSubstr("on ssd")));
}

TEST_F(AutoLayoutTest, OfAccelerators_AutoMovesStatesToTheHostWhereTheCardIsTooSmall) {
  model_ = kLarger;
  const std::string gpu =
      "train: {sequence: 32, global_batch: 8}\nparallel: {data: 2}\nmemory: auto\nresources: "
      "{device: h100}\n";
  planner::RankRoom card{.device = int64_t{80} << 30, .device_node = "n", .kind = "h100"};
  const std::vector<Candidate> large = *Rank(gpu, AutoRequest{.room = card});
  ASSERT_EQ(large.size(), 1u);
  EXPECT_TRUE(large.front().settings.empty());
  card.device = large.front().rank_device - 1;
  const std::vector<Candidate> small = *Rank(gpu, AutoRequest{.room = card});
  ASSERT_TRUE(small.front().fits);
  EXPECT_THAT(small.front().words.ToText(), HasSubstr(" on host"));
  ASSERT_EQ(small.front().settings.size(), 1u);
  EXPECT_THAT(small.front().settings[0], StartsWith("memory={place: {"));
}

TEST_F(AutoLayoutTest, WhatStepsTook_CorrectsTheNextChoice) {
  const std::vector<Candidate> before = *Rank(kTwoRanks);
  spec::Problems none("job.yaml");
  const auto job = Read(before[0].settings, none).job;
  const planner::FamilyKey family = planner::FamilyOf(job, job.model(), "cpu");
  AutoRequest request;
  const auto learn = [&](const std::string& layout, double ratio) {
    v1::PlanFamily& learned = *request.learned.Add();
    learned.set_workload(family.workload);
    learned.set_layout(layout);
    learned.set_ratio(ratio);
    learned.set_steps(32);
  };
  // The machine is half as fast as was thought, whatever the layout: the choice stays.
  learn(family.layout, 2);
  const std::vector<Candidate> slow = *Rank(kTwoRanks, request);
  EXPECT_EQ(slow[0].settings, before[0].settings);
  EXPECT_DOUBLE_EQ(slow[0].seconds, 2 * before[0].seconds);
  EXPECT_TRUE(slow[0].correction->of_layout);
  double sum = 0;
  for (const auto& [name, seconds] : slow[0].terms) sum += seconds;
  EXPECT_NEAR(sum, slow[0].seconds, 1e-9);
  // This layout alone is far slower than was thought: another one is chosen.
  learn("tensor 64, data 1", 1);
  learn("tensor 32, data 1", 1);
  request.learned[0].set_ratio(50);
  const std::vector<Candidate> other = *Rank(kTwoRanks, request);
  const auto chosen = Read(other[0].settings, none).job;
  EXPECT_NE(planner::FamilyOf(chosen, chosen.model(), "cpu").layout, family.layout);
  EXPECT_FALSE(other[0].correction->of_layout);
}

TEST_F(AutoLayoutTest, Progress_IsToldAfterEachLayout) {
  std::vector<std::pair<int64_t, int64_t>> told;
  AutoRequest request;
  request.on_progress = [&](int64_t looked_at, int64_t of) { told.emplace_back(looked_at, of); };
  ASSERT_TRUE(Rank(kTwoRanks, request).ok());
  ASSERT_FALSE(told.empty());
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].first, static_cast<int64_t>(i + 1));
    EXPECT_GE(told[i].second, told[i].first);
  }
  EXPECT_EQ(told.back().first, told.back().second);
}

TEST_F(AutoLayoutTest, WhoeverGivesUp_GetsNoAnswer) {
  AutoRequest request;
  int asked = 0;
  request.gives_up = [&] { return ++asked > 2; };
  const auto ranked = Rank(kTwoRanks, request);
  EXPECT_EQ(ranked.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(ranked.status().message()), HasSubstr("only 2 of "));
  EXPECT_EQ(asked, 3);
}

TEST_F(AutoLayoutTest, RanksThatNoLayoutDivides_AreToldWithTheFirstReason) {
  const auto ranked =
      Rank("train: {sequence: 31, global_batch: 1}\nparallel: auto\nresources: {ranks: 13}\n");
  ASSERT_FALSE(ranked.ok());
  EXPECT_THAT(std::string(ranked.status().message()),
              StartsWith("no layout is legal (the first, data 13"));
  EXPECT_THAT(std::string(ranked.status().message()), Not(HasSubstr("--set:")));
  EXPECT_EQ(Rank("parallel: auto\nresources: {ranks: 65}\n").status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace strata::client
