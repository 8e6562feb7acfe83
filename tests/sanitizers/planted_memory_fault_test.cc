// The address and undefined-behaviour sanitizers end a program at a planted fault and name it.
#include <cstdlib>
#include <limits>
#include <memory>

#include "gtest/gtest.h"

namespace strata {
namespace {

// Keeps the compiler from seeing through a value, and so from removing or refusing the fault.
template <typename T>
T Opaque(T value) {
  volatile T hidden = value;
  return hidden;
}

void WriteBehindTheEnd() {
  const int size = Opaque(8);
  const auto values = std::make_unique<int[]>(size);
  values[Opaque(8)] = 1;
}

void ReadAfterFree() {
  int* value = Opaque(new int(3));
  delete value;
  Opaque(*value);  // NOLINT(clang-analyzer-cplusplus.NewDelete): planted
}

void Overflow() { Opaque(Opaque(std::numeric_limits<int>::max()) + Opaque(1)); }

// The leak is looked for when the program ends.
void Leak() {
  for (int i = 0; i < 100; ++i) Opaque(new int[1000]);
  std::exit(0);
}

TEST(PlantedMemoryFault, WriteBehindTheEndOfAnArrayIsFound) {
  EXPECT_DEATH(WriteBehindTheEnd(), "heap-buffer-overflow");
}

TEST(PlantedMemoryFault, ReadAfterFreeIsFound) {
  EXPECT_DEATH(ReadAfterFree(), "heap-use-after-free");
}

TEST(PlantedMemoryFault, SignedOverflowIsFound) {
  EXPECT_DEATH(Overflow(), "signed integer overflow");
}

TEST(PlantedMemoryFault, LeakIsFound) { EXPECT_DEATH(Leak(), "detected memory leaks"); }

}  // namespace
}  // namespace strata
