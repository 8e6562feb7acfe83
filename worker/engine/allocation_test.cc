// A step allocates nothing: every allocation of this process is counted.
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "worker/engine/toy_step.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* Allocate(size_t size, size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) {
    allocations.fetch_add(1, std::memory_order_relaxed);
  }
  const size_t whole = (size + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  STRATA_CHECK(memory != nullptr);
  return memory;
}
}  // namespace

void* operator new(size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new[](size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace strata::worker {
namespace {

TEST(Allocation, CountingSeesAllocations) {
  allocations = 0;
  counting = true;
  auto* value = new std::vector<int>(100);
  counting = false;
  EXPECT_GE(allocations, 2);
  delete value;
}

// Warm steps first, then counted ones, on all ranks at once.
int64_t CountedAllocations(int ranks, bool sharded) {
  auto world = collectives::LoopbackWorld(ranks);
  std::vector<ToyRank> opened(ranks);
  std::vector<std::thread> threads;
  std::atomic<int> warm{0}, done{0};
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      auto rank = OpenToyRank(r, ranks, sharded, ranks > 1 ? std::move(world[r]) : nullptr);
      STRATA_CHECK(rank.ok());
      opened[r] = *std::move(rank);
      const auto train = [&](int steps) {
        for (int step = 0; step < steps; ++step) {
          STRATA_CHECK(opened[r].Train().ok());
        }
        STRATA_CHECK(opened[r].engine->Drain().ok());
      };
      train(2);
      if (++warm == ranks) counting = true;
      while (!counting) std::this_thread::yield();
      train(5);
      if (++done == ranks) counting = false;
      while (counting) std::this_thread::yield();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return allocations;
}

TEST(Allocation, AStepAllocatesNothing) {
  for (const auto& [ranks, sharded] :
       {std::pair{1, false}, std::pair{2, false}, std::pair{2, true}}) {
    allocations = 0;
    EXPECT_EQ(CountedAllocations(ranks, sharded), 0) << ranks << " ranks, sharded " << sharded;
  }
}

}  // namespace
}  // namespace strata::worker
