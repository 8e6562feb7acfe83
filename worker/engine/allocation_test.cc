// A step allocates nothing, and a bound program little: every allocation of this process is
// counted.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "common/check.h"
#include "gtest/gtest.h"
#include "program/compose/assembler.h"
#include "program/passes/layout.h"
#include "worker/engine/toy_step.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};
std::atomic<int64_t> live_bytes{0};

void* Allocate(size_t size, size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) {
    allocations.fetch_add(1, std::memory_order_relaxed);
  }
  const size_t whole = (size + alignment) / alignment * alignment;
  void* memory = std::aligned_alloc(alignment, whole);
  STRATA_CHECK(memory != nullptr);
  live_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  return memory;
}

void Free(void* memory) {
  live_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
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
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { Free(memory); }

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

// What stays allocated for an engine of a program with `layers` times eight calls of eight layers'
// addresses, two ops each, and a transfer: as when micro-batch after micro-batch goes the same way.
int64_t BytesOfEngine(int layers, int* actions, int64_t* said) {
  program::ProgramSet set;
  program::Assembler assembler(set, program::Tier::kHost);
  set.scalars =
      assembler.AddPersistent("scalars", program::SlotClass::kScalars, program::kScalarBytes);
  std::vector<int> slots;
  for (int i = 0; i < 8; ++i) {
    slots.push_back(assembler.AddPersistent("slot", program::SlotClass::kBatch, 64));
  }
  assembler.BeginProgram("long");
  for (int i = 0; i < 8 * layers; ++i) {
    const program::Operand from{.slot = slots[i % 8], .bytes = 64};
    program::Operand to{
        .slot = slots[(i + 1) % 8], .bytes = 64, .access = program::Access::kAccumulate};
    assembler.CallOp({.kind = program::OpKind::kAdd, .ints = {16}}, program::Purpose::kForward,
                     "add", {to, from});
    assembler.Transfer(program::Stream::kFetch, program::Purpose::kFetch, "copy", from, to);
  }
  STRATA_CHECK(program::LayOut(set).ok());
  ToyRank rank;
  rank.host = std::make_unique<ToyHost>(0, 1);
  rank.pool = std::make_unique<device::ThreadPool>(1);
  const int64_t before = live_bytes;
  auto engine = Engine::Create(std::move(set), ToyOptions(1, rank));
  STRATA_CHECK(engine.ok());
  *actions = (*engine)->actions(0);
  *said = (*engine)->program_bytes();
  return live_bytes - before;
}

TEST(Allocation, ABoundActionCostsTensOfBytes) {
  int actions[2] = {};
  int64_t said[2] = {};
  const int64_t few = BytesOfEngine(500, &actions[0], &said[0]);
  const int64_t many = BytesOfEngine(2500, &actions[1], &said[1]);
  const double more = actions[1] - actions[0];
  const double per_action = static_cast<double>(many - few) / more;
  RecordProperty("bytes_per_action", std::to_string(per_action));
  EXPECT_LT(per_action, 64);
  EXPECT_GT(per_action, 8);
  EXPECT_NEAR(static_cast<double>(said[1] - said[0]) / more, per_action, 2);
}

}  // namespace
}  // namespace strata::worker
