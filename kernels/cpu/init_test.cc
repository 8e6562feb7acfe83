#include "kernels/init.h"

#include "kernels/cpu/test_util.h"

namespace strata::kernels {
namespace {

using testing::Floats;

TEST(Init, AShardHoldsItsPartOfTheWhole) {
  constexpr int64_t kCount = 40001;
  const Floats whole = testing::RunWithThreads([](const Context& c) {
    Floats values(kCount);
    InitNormal(c, 9, 0.02f, 0, kCount, values.data());
    return values;
  });
  device::ThreadPool pool(2);
  Floats shard(20000);
  InitNormal({&pool}, 9, 0.02f, 13000, 33000, shard.data());
  EXPECT_TRUE(std::equal(shard.begin(), shard.end(), whole.begin() + 13000));
  EXPECT_EQ(whole[77], 0.02f * common::NormalAt(9, 77));
}

TEST(Init, ConstantFillsTheRange) {
  device::ThreadPool pool(1);
  Floats values(11);
  InitConstant({&pool}, 1.5f, 10, values.data());
  EXPECT_EQ(values, (Floats{1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 1.5f, 0}));
}

}  // namespace
}  // namespace strata::kernels
