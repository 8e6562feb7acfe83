#include "tests/programs/adapter_memory.h"

#include "gtest/gtest.h"

namespace strata::testing {
namespace {

TEST(AdapterMemoryTest, WeightsAndState_AreThoseOfTheArithmetic) {
  using program::DType;
  for (const std::optional<DType> quantised :
       {std::optional<DType>(), {DType::kNf4}, {DType::kNf4F32}, {DType::kInt8}}) {
    const auto memory = MemoryOfAdapters8B(quantised);
    ASSERT_TRUE(memory.ok()) << memory.status();
    EXPECT_EQ(memory->trained, 41'943'040);  // as peft counts
    EXPECT_EQ(memory->quantised, quantised ? 6'979'321'856 : 0);
    EXPECT_EQ(memory->quantised + memory->frozen, 8'030'261'248);
    const auto bytes = static_cast<double>(memory->weights_and_state());
    EXPECT_NEAR(bytes, memory->expected(), 0.02 * memory->expected());
  }
}

}  // namespace
}  // namespace strata::testing
