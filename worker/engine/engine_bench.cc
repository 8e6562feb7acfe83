// What a step costs beside its kernels: nanoseconds per action of programs whose ops do almost
// nothing, alone and between two ranks in one process.
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/loopback.h"
#include "common/check.h"
#include "common/clock.h"
#include "program/compose/assembler.h"
#include "program/passes/layout.h"
#include "worker/engine/toy_step.h"

namespace strata::worker {
namespace {

using program::Access;
using program::Operand;

// `ops` additions of 16 floats; with `copies`, each followed by a transfer on another stream that
// nothing waits for but the transfer's next turn.
program::ProgramSet TinyOps(int ops, bool copies) {
  program::ProgramSet set;
  program::Assembler assembler(set, program::Tier::kHost);
  const auto slot = [&](const char* name) {
    return assembler.AddPersistent(name, program::SlotClass::kBatch, 64);
  };
  set.scalars =
      assembler.AddPersistent("scalars", program::SlotClass::kScalars, program::kScalarBytes);
  const int a = slot("a"), b = slot("b"), c = slot("c");
  assembler.BeginProgram("tiny");
  for (int i = 0; i < ops; ++i) {
    assembler.CallOp(
        {.kind = program::OpKind::kAdd, .ints = {16}}, program::Purpose::kForward, "add",
        {{.slot = a, .bytes = 64, .access = Access::kAccumulate}, {.slot = a, .bytes = 64}});
    if (copies) {
      assembler.Transfer(program::Stream::kFetch, program::Purpose::kFetch, "copy",
                         {.slot = b, .bytes = 64}, {.slot = c, .bytes = 64});
    }
  }
  STRATA_CHECK(program::LayOut(set).ok());
  return set;
}

void Alone(const char* name, int ops, bool copies) {
  ToyRank rank;
  rank.host = std::make_unique<ToyHost>(0, 1);
  rank.pool = std::make_unique<device::ThreadPool>(1);
  auto engine = Engine::Create(TinyOps(ops, copies), ToyOptions(1, rank));
  STRATA_CHECK(engine.ok());
  const common::MonotonicClock clock;
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const double begin = clock.Now();
    for (int step = 0; step < 20; ++step) STRATA_CHECK((*engine)->RunStep(0, 0).ok());
    STRATA_CHECK((*engine)->Drain().ok());
    best = std::min(best, (clock.Now() - begin) / 20);
  }
  std::printf("%-32s %8.1f us a step %8.0f ns an action\n", name, best * 1e6,
              best * 1e9 / (*engine)->actions(0));
}

void TwoRanks(const char* name, bool sharded) {
  auto world = collectives::LoopbackWorld(2);
  std::vector<ToyRank> ranks(2);
  std::vector<std::thread> threads;
  double best = 1e9;
  for (int r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      auto opened = OpenToyRank(r, 2, sharded, std::move(world[r]));
      STRATA_CHECK(opened.ok());
      ranks[r] = *std::move(opened);
      const common::MonotonicClock clock;
      for (int round = 0; round < 10; ++round) {
        const double begin = clock.Now();
        for (int step = 0; step < 50; ++step) STRATA_CHECK(ranks[r].Train().ok());
        if (r == 0) best = std::min(best, (clock.Now() - begin) / 50);
      }
      STRATA_CHECK(ranks[r].engine->Drain().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::printf("%-32s %8.1f us a step\n", name, best * 1e6);
}

}  // namespace
}  // namespace strata::worker

int main() {
  using strata::worker::Alone;
  using strata::worker::TwoRanks;
  Alone("2000 tiny ops", 2000, false);
  Alone("20 tiny ops", 20, false);
  Alone("1000 tiny ops, 1000 transfers", 1000, true);
  TwoRanks("toy step, two ranks", false);
  TwoRanks("toy step, two ranks, sharded", true);
}
