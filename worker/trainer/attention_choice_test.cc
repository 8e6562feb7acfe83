#include "worker/trainer/attention_choice.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

using ::testing::HasSubstr;

struct Machine {
  bool built = true;
  int capability = 90;
  absl::StatusOr<int64_t> version = 91400;
};

absl::StatusOr<AttentionChoice> Choose(const char* wish, const Machine& machine) {
  const auto version = [&] { return machine.version; };
  return ChooseAttention(wish, {machine.built, machine.capability, version});
}

// Of a choice that is to be Strata's kernels.
std::string WhyOurs(const char* wish, const Machine& machine) {
  const absl::StatusOr<AttentionChoice> choice = Choose(wish, machine);
  EXPECT_TRUE(choice.ok()) << choice.status();
  if (!choice.ok()) return "";
  EXPECT_FALSE(choice->cudnn);
  EXPECT_FALSE(choice->demanded);
  return choice->why;
}

const Machine kNoLibrary = {.version = absl::NotFoundError("cuDNN: libcudnn.so.9: no such file")};

TEST(ChooseAttention, WithoutAWishOnProvenDevice_TakesCudnnAndDemandsNothing) {
  for (const int64_t version : {91400, 91401, 91900, 92500}) {
    const auto choice = Choose(nullptr, {.version = version});
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(choice->cudnn) << version;
    EXPECT_FALSE(choice->demanded);
    EXPECT_EQ(choice->why, "");
  }
}

TEST(ChooseAttention, WithoutALibrary_TakesOursAndSaysWhatTheLoaderSays) {
  EXPECT_EQ(WhyOurs(nullptr, kNoLibrary), "cuDNN: libcudnn.so.9: no such file");
}

TEST(ChooseAttention, WithAnOldLibrary_TakesOursAndNamesBothVersions) {
  EXPECT_EQ(WhyOurs(nullptr, {.version = 91002}),
            "cuDNN 9.10.2 is older than 9.14.0; STRATA_GPU_CUDNN=1 takes it");
}

TEST(ChooseAttention, BuiltWithoutCudnn_TakesOursAndSaysHowToBuildIt) {
  EXPECT_THAT(WhyOurs(nullptr, {.built = false}), HasSubstr("./dev build --cuda"));
}

TEST(ChooseAttention, OnOtherDevices_TakesOursAndSaysHowToAsk) {
  for (const int capability : {80, 89, 100, 103, 120}) {
    EXPECT_THAT(WhyOurs(nullptr, {.capability = capability}), HasSubstr("STRATA_GPU_CUDNN=1"));
  }
  EXPECT_THAT(WhyOurs(nullptr, {.capability = 103}), HasSubstr("compute capability 10.3;"));
}

TEST(ChooseAttention, WishedAway_TakesOursWhereverItIs) {
  EXPECT_EQ(WhyOurs("0", {}), "STRATA_GPU_CUDNN=0");
  EXPECT_EQ(WhyOurs("0", {.built = false}), "STRATA_GPU_CUDNN=0");
}

TEST(ChooseAttention, Demanded_TakesCudnnOnAnyDeviceAndOfAnyVersion) {
  for (const Machine& machine : {Machine{}, {.capability = 80}, {.version = 90100}}) {
    const auto choice = Choose("1", machine);
    ASSERT_TRUE(choice.ok()) << choice.status();
    EXPECT_TRUE(choice->cudnn);
    EXPECT_TRUE(choice->demanded);
  }
}

TEST(ChooseAttention, DemandedWhereItIsNot_IsAnError) {
  EXPECT_TRUE(absl::IsNotFound(Choose("1", kNoLibrary).status()));
  const absl::Status without = Choose("1", {.built = false}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(without));
  EXPECT_THAT(std::string(without.message()), HasSubstr("./dev build --cuda has it; or unset it"));
}

TEST(ChooseAttention, AnyOtherWish_IsAnError) {
  for (const char* wish : {"", "yes", "2"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Choose(wish, {}).status())) << wish;
  }
}

TEST(ChooseAttention, WhereNoVersionMatters_OpensNoLibrary) {
  bool opened = false;
  const auto version = [&]() -> absl::StatusOr<int64_t> {
    opened = true;
    return 91400;
  };
  EXPECT_TRUE(ChooseAttention("0", {true, 90, version}).ok());
  EXPECT_TRUE(ChooseAttention(nullptr, {true, 80, version}).ok());
  EXPECT_TRUE(ChooseAttention(nullptr, {false, 90, version}).ok());
  EXPECT_FALSE(opened);
}

}  // namespace
}  // namespace strata::worker
