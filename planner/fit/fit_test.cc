#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "planner/fit/arithmetic.h"
#include "planner/fit/fit_testing.h"
#include "planner/fit/largest.h"
#include "planner/fit/ways.h"
#include "planner/fit/zero_infinity.h"
#include "planner/performance/catalog.h"

namespace strata::planner {
namespace {

using testing::HasSubstr;

constexpr int64_t kGB = 1'000'000'000;
constexpr double kGiB = 1 << 30;

bool Fits(const FitRequest& request) {
  const auto fit = ReadFit(request);
  EXPECT_TRUE(fit.ok()) << fit.status();
  return fit.ok() && fit->verdict.fits;
}

// Which of 24, 40 and 80 GB are enough, a letter each: y or n. Full recompute, 1,024 tokens.
std::string CardsOf(const char* model, Method method) {
  std::string cards;
  for (const int64_t gigabytes : {24, 40, 80}) {
    FitRequest request = RequestOf(model, method, Card(gigabytes * kGB), 1024);
    if (method != Method::kInference) RecomputeAll(request);
    cards += Fits(request) ? 'y' : 'n';
  }
  return cards;
}

struct LadderRow {
  const char* model;
  const char *f32, *mixed, *lora, *qlora, *inference;
};

// 16, 18, 2, 0.5 and 2 bytes a parameter, and what comes with them.
constexpr LadderRow kLadder[] = {{"llama-3.2-1b", "yyy", "yyy", "yyy", "yyy", "yyy"},
                                 {"llama-2-7b", "nnn", "nnn", "yyy", "yyy", "yyy"},
                                 {"llama-3.1-8b", "nnn", "nnn", "yyy", "yyy", "yyy"},
                                 {"llama-2-13b", "nnn", "nnn", "nyy", "yyy", "nyy"},
                                 {"llama-3.1-70b", "nnn", "nnn", "nnn", "nny", "nnn"}};

TEST(Fit, OfUsualModelsAndMethods_KnowsTheCardsThatDo) {
  for (const LadderRow& row : kLadder) {
    EXPECT_EQ(CardsOf(row.model, Method::kF32), row.f32) << row.model;
    EXPECT_EQ(CardsOf(row.model, Method::kMixed), row.mixed) << row.model;
    EXPECT_EQ(CardsOf(row.model, Method::kLora), row.lora) << row.model;
    EXPECT_EQ(CardsOf(row.model, Method::kQlora), row.qlora) << row.model;
    EXPECT_EQ(CardsOf(row.model, Method::kInference), row.inference) << row.model;
  }
}

TEST(Fit, Of70BWithQloraSharedByFour_FitsCardsBelow80GB) {
  FitRequest request = RequestOf("llama-3.1-70b", Method::kQlora, Card(24 * kGB), 1024);
  RecomputeAll(request);
  EXPECT_FALSE(Fits(request));
  ShareAmong(4, request);
  EXPECT_TRUE(Fits(request));
}

TEST(FindWays, AllFitByTheSameReport) {
  for (const char* model : {"llama-3.1-8b", "llama-3.1-70b"}) {
    const FitRequest request = RequestOf(model, Method::kMixed, *DeviceOf("h100", 0), 2048);
    ASSERT_FALSE(Fits(request));
    const std::vector<Way> ways = FindWays(request);
    ASSERT_GE(ways.size(), 4) << model;
    for (const Way& way : ways) {
      EXPECT_TRUE(Fits(way.request)) << model << ": " << way.text;
      EXPECT_LT(way.seconds, 0);
    }
  }
}

TEST(FindWays, ToldSeconds_PutsTheFastestFirst) {
  const FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, *DeviceOf("h100", 0), 2048);
  const std::vector<Way> ways = FindWays(request, [](const FitRequest& way) {
    return way.job.train().method() == v1::TrainSpec::METHOD_QLORA ? 1.0 : -1.0;
  });
  ASSERT_FALSE(ways.empty());
  EXPECT_EQ(ways[0].seconds, 1);
  EXPECT_THAT(ways[0].text, HasSubstr("QLoRA"));
}

TEST(FindWays, OfDataRanks_SharesBeforeAnythingElse) {
  FitRequest request = RequestOf("llama-2-7b", Method::kMixed, *DeviceOf("h100", 0), 1024);
  ShareAmong(8, request);
  request.job.mutable_parallel()->set_shard(v1::ParallelSpec::SHARD_NONE);
  request.job.mutable_parallel()->clear_shard_group();
  request.job.mutable_parallel()->set_virtual_shards(8);
  ASSERT_FALSE(Fits(request));
  EXPECT_THAT(FindWays(request)[0].text, HasSubstr("the data ranks share"));
}

void ExpectExtreme(const FitRequest& request, Quantity quantity) {
  const auto largest = FindLargest(request, quantity);
  ASSERT_TRUE(largest.ok()) << largest.status();
  ASSERT_TRUE(largest->found);
  EXPECT_TRUE(Fits(largest->request));
  const int64_t further = quantity == Quantity::kDevices ? -largest->step : largest->step;
  if (largest->value + further <= 0) return;
  EXPECT_FALSE(Fits(With(request, quantity, largest->value + further)));
  EXPECT_THAT(largest->bound, HasSubstr("the device of rank"));
}

TEST(FindLargest, ItsAnswerFitsAndTheNextOneDoesNot) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kLora, *DeviceOf("h100", 0), 2048);
  for (const Quantity quantity : {Quantity::kSequence, Quantity::kMicroBatch, Quantity::kLayers}) {
    ExpectExtreme(request, quantity);
  }
  ExpectExtreme(RequestOf("llama-3.1-70b", Method::kMixed, *DeviceOf("h100", 0), 2048),
                Quantity::kDevices);
}

TEST(FindLargest, WhatTheModelBinds_IsSaid) {
  const FitRequest request = RequestOf("gpt2", Method::kMixed, *DeviceOf("h100", 0), 512);
  const auto largest = FindLargest(request, Quantity::kSequence);
  ASSERT_TRUE(largest.ok());
  EXPECT_EQ(largest->value, 1024);
  EXPECT_THAT(largest->bound, HasSubstr("model.context"));
}

TEST(FindLargest, WhereNothingFits_SaysWhatBinds) {
  const FitRequest request = RequestOf("llama-3.1-70b", Method::kMixed, Card(24 * kGB), 512);
  const auto largest = FindLargest(request, Quantity::kSequence);
  ASSERT_TRUE(largest.ok());
  EXPECT_FALSE(largest->found);
  EXPECT_THAT(largest->bound, HasSubstr("too much"));
}

TEST(Arithmetic, OfStates_ComesToWhatIsHeld) {
  const FitRequest request = RequestOf("llama-3.1-8b", Method::kF32, Card(80 * kGB), 1024);
  const auto memory = ReadMemoryOfJob(request);
  ASSERT_TRUE(memory.ok());
  for (const Product& product : ArithmeticOf(request, *memory)) {
    if (product.klass == ByteClass::kActivations) continue;
    EXPECT_NEAR(product.held / product.bytes, 1, 1e-3) << product.factors;
  }
}

TEST(Device, Names_AreCardsOrSizes) {
  EXPECT_EQ(DeviceOf("a100-80", 0)->bytes, int64_t{81920} << 20);
  EXPECT_EQ(DeviceOf("a100", 0)->bytes, DeviceOf("a100-80", 0)->bytes);  // as strata plan has it
  EXPECT_EQ(DeviceOf("24GB", 24 * kGB)->bytes, 24 * kGB);
  EXPECT_TRUE(DeviceOf("cpu", 0)->is_cpu);
  EXPECT_THAT(std::string(DeviceOf("h1000", 0).status().message()), HasSubstr("h100"));
  EXPECT_EQ(DeviceOf("h100", 0)->bytes, int64_t{81559} << 20);  // as nvidia-smi tells it
  EXPECT_TRUE(DeviceOf("h200", 0)->library_attention);
  EXPECT_FALSE(DeviceOf("b200", 0)->library_attention);
}

TEST(Device, EveryKindOfTheCatalog_IsKnown) {
  for (const v1::GpuProfile& gpu : Catalog::Shipped().profiles().gpus()) {
    const auto device = DeviceOf(gpu.name(), 0);
    ASSERT_TRUE(device.ok()) << gpu.name();
    EXPECT_NEAR(static_cast<double>(device->bytes) / gpu.memory_bytes(), 1, 0.12) << gpu.name();
  }
  EXPECT_TRUE(DeviceOf("gb10", 0)->host_is_device);
  EXPECT_TRUE(DeviceOf("gb200", 0)->coherent);
  EXPECT_EQ(DeviceOf("gh200", 0)->host_bytes, 480 * kGB);
}

TEST(Fit, OfOneMemoryForHostAndDevice_CountsBothAndOffersNoHost) {
  const FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, *DeviceOf("gb10", 0), 2048);
  const Fit fit = *ReadFit(request);
  EXPECT_FALSE(fit.verdict.fits);
  EXPECT_THAT(fit.verdict.ToText(), HasSubstr("one memory with its host's"));
  for (const Way& way : FindWays(request)) {
    EXPECT_THAT(way.text, ::testing::Not(HasSubstr("host"))) << way.text;
  }
}

TEST(Fit, WhatTheHostDoesNotHold_IsNotOffered) {
  FitRequest request = RequestOf("llama-3.1-8b", Method::kMixed, *DeviceOf("gh200", 0), 2048);
  const auto on_host = [&] {
    const std::vector<Way> ways = FindWays(request);
    return std::any_of(ways.begin(), ways.end(), [](const Way& way) {
      return way.fit.memory.of_rank(0).tier(program::Tier::kHost).arena_bytes > 60 * kGB;
    });
  };
  EXPECT_TRUE(on_host());
  request.device.host_bytes = 60 * kGB;  // 12 bytes of 8 G parameters are 96
  EXPECT_FALSE(on_host());
  request.job.mutable_memory()->set_host(400 * kGB);  // the user knows better
  EXPECT_TRUE(on_host());
}

// DataStates' public logs of MLP-Offload, 4 ranks: 50 and 64 buffers a rank of so many f32
// elements.
TEST(ZeroInfinity, PinnedSizes_AreThoseOfPublicLogs) {
  EXPECT_NEAR(static_cast<double>(4 * 50 * 4 * int64_t{211'816'448}) / kGiB, 157.8, 0.05);
  EXPECT_EQ(4 * 50 * PinnedBytes(4 * int64_t{211'816'448}), int64_t{200} << 30);
  EXPECT_NEAR(static_cast<double>(4 * 64 * 4 * int64_t{152'047'616}) / kGiB, 145.0, 0.05);
  EXPECT_EQ(4 * 64 * PinnedBytes(4 * int64_t{152'047'616}), int64_t{256} << 30);
  // Gradients of 68.61 B parameters in 16 bits on four ranks: 128 GiB, exact 127.8.
  const int64_t own = 68'610'000'000 / 4;
  EXPECT_EQ(4 * PinnedBytes(2 * own), int64_t{128} << 30);
}

struct HostRow {
  const char* model;
  double sub_group, fp16, bf16;  // billions of elements; GiB
};

TEST(ZeroInfinity, HostMemoryOfFiveModels_IsAsDerivedFromItsSource) {
  constexpr HostRow kRows[] = {{"llama-3.1-8b", 1.049, 97.4, 44},
                               {"qwen2.5-7b", 1.029, 95.5, 44},
                               {"qwen2.5-14b", 1.329, 178.8, 78},
                               {"qwen2.5-32b", 1.691, 326.6, 110},
                               {"llama-3.1-70b", 1.091, 894.5, 310}};
  for (const HostRow& row : kRows) {
    ZeroInfinityOptions options;
    const auto model = ZeroInfinityModelOf(PresetModel(row.model)->spec, options);
    ASSERT_TRUE(model.ok());
    EXPECT_NEAR(static_cast<double>(model->largest_sub_group) / 1e9, row.sub_group, 0.002)
        << row.model;
    const auto gibibytes = [&] {
      return static_cast<double>(ReservedBytes(ZeroInfinityHost(*model, options))) / kGiB;
    };
    EXPECT_NEAR(gibibytes(), row.bf16, 0.6) << row.model;
    options.fp16 = true;
    options.gradient_bytes = 4;
    EXPECT_NEAR(gibibytes(), row.fp16, 0.6) << row.model;
  }
}

}  // namespace
}  // namespace strata::planner
