#include "worker/trainer/calibration/link_times.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/status_macros.h"
#include "program/ir/types.h"

namespace strata::worker {
namespace {

using collectives::Operation;
using collectives::OpKind;

constexpr int64_t kCopySizes[] = {1 << 16, 1 << 20, 1 << 24};
constexpr int64_t kInterferenceSizes[] = {1 << 16, 1 << 20, 1 << 24};

const common::MonotonicClock kClock{};

// Room for any operation of two ranks with as many floats per member.
class Buffers {
 public:
  explicit Buffers(int64_t count, int ranks = 2)
      : scratch_bytes_(
            std::max(collectives::ScratchBytes(OpKind::kAllReduce, collectives::DataType::kF32,
                                               count, ranks),
                     collectives::ScratchBytes(OpKind::kReduceScatter, collectives::DataType::kF32,
                                               count, ranks))),
        in_(count * ranks, 1),
        out_(count * ranks, 1),
        scratch_(scratch_bytes_ / sizeof(float) + 32) {}

  Operation Make(OpKind kind, collectives::GroupId group, int64_t count) {
    const auto aligned = (reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64;
    return {.kind = kind,
            .group = group,
            .type = collectives::DataType::kF32,
            .count = count,
            .in = in_.data(),
            .out = out_.data(),
            .scratch = reinterpret_cast<void*>(aligned),
            .scratch_bytes = scratch_bytes_};
  }

 private:
  const int64_t scratch_bytes_;
  std::vector<float> in_, out_, scratch_;
};

// Those that steps hide, by what a rank does for its bytes: copy them, add them, both.
constexpr MeasuredOperation kBesideSteps[] = {
    {OpKind::kAllGather, program::CollectiveOp::kAllGather},
    {OpKind::kReduceScatter, program::CollectiveOp::kReduceScatter},
    {OpKind::kAllReduce, program::CollectiveOp::kAllReduce},
    {OpKind::kRotate, program::CollectiveOp::kRotate},
};

void AddTime(const char* name, int64_t bytes, double seconds, v1::RankProfile& profile) {
  v1::CommunicationTime& time = *profile.add_communications();
  time.set_op(name);
  time.set_bytes(bytes);
  time.set_seconds(seconds);
}

// Steps per second until `done` says so, and at least one.
template <typename Done>
absl::StatusOr<double> RateOf(TrainingRank& rank, const Done& done) {
  const double begin = kClock.Now();
  int count = 0;
  do {
    RETURN_IF_ERROR(rank.Step());
    ++count;
  } while (!done());
  return count / (kClock.Now() - begin);
}

// The median of `repetitions`, which both ranks make.
absl::StatusOr<double> SecondsOf(const RunOperation& run, const Operation& operation,
                                 int repetitions) {
  std::vector<double> found;
  for (int i = 0; i <= repetitions; ++i) {
    const double begin = kClock.Now();
    RETURN_IF_ERROR(run(operation));
    if (i > 0) found.push_back(kClock.Now() - begin);  // the first touches the memory
  }
  return Median(std::move(found));
}

// The median of as many as fit into `seconds`; rank 0 says when it is over.
absl::StatusOr<double> SecondsFor(const RunOperation& run, const Operation& operation,
                                  double seconds) {
  constexpr int kBatch = 4;
  std::vector<double> found;
  const double until = kClock.Now() + seconds;
  for (double goes_on = 1; goes_on > 0;) {
    ASSIGN_OR_RETURN(found.emplace_back(), SecondsOf(run, operation, kBatch));
    goes_on = kClock.Now() < until ? 1 : 0;
    RETURN_IF_ERROR(run({.kind = OpKind::kBroadcast,
                         .group = operation.group,
                         .type = collectives::DataType::kF64,
                         .count = 1,
                         .in = &goes_on,
                         .out = &goes_on}));
  }
  return Median(std::move(found));
}

// What an operation costs a rank's steps, and they it.
struct Beside {
  double lost = 0, stretch = 1;
};

absl::StatusOr<Beside> MeasureBeside(const RunOperation& run, const Operation& operation,
                                     TrainingRank& rank, double seconds) {
  RETURN_IF_ERROR(run({.group = operation.group}));  // a barrier: both begin at once
  const double until = kClock.Now() + seconds;
  ASSIGN_OR_RETURN(const double rate_alone, RateOf(rank, [&] { return kClock.Now() >= until; }));
  ASSIGN_OR_RETURN(const double alone, SecondsOf(run, operation, 9));
  absl::StatusOr<double> beside = 0.0;
  std::atomic<bool> ended = false;
  std::thread communication([&] {
    beside = SecondsFor(run, operation, seconds);
    ended.store(true);
  });
  const absl::StatusOr<double> rate_beside = RateOf(rank, [&] { return ended.load(); });
  communication.join();
  RETURN_IF_ERROR(beside.status());
  RETURN_IF_ERROR(rate_beside.status());
  return Beside{.lost = 1 - *rate_beside / rate_alone, .stretch = *beside / alone};
}

}  // namespace

absl::Status RunAlone(collectives::Communicator& communicator, const Operation& operation) {
  ASSIGN_OR_RETURN(const collectives::OperationId id, communicator.Post(operation));
  for (;;) {
    ASSIGN_OR_RETURN(const bool done, communicator.Test(id));
    if (done) return absl::OkStatus();
    if (!communicator.Progress()) communicator.Wait(absl::Milliseconds(100));
  }
}

absl::StatusOr<double> AllReduceSeconds(const RunOperation& run, collectives::GroupId group,
                                        int size, int64_t count, int repetitions) {
  Buffers buffers(count, size);
  return SecondsOf(run, buffers.Make(OpKind::kAllReduce, group, count), repetitions);
}

absl::Status MeasureLinks(const RunOperation& run, collectives::GroupId group, int index,
                          int64_t largest_bytes, int repetitions, v1::RankProfile& profile) {
  Buffers buffers(largest_bytes / static_cast<int64_t>(sizeof(float)));
  const auto timed = [&](const auto& body) -> absl::StatusOr<double> {
    std::vector<double> found;
    for (int i = 0; i <= repetitions; ++i) {
      RETURN_IF_ERROR(run({.group = group}));  // a barrier: both begin at once
      const double begin = kClock.Now();
      RETURN_IF_ERROR(body());
      if (i > 0) found.push_back(kClock.Now() - begin);
    }
    return Median(std::move(found));
  };
  for (int64_t bytes = 256; bytes <= largest_bytes; bytes *= 8) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    for (const MeasuredOperation& kind : kMeasuredOperations) {
      const Operation operation = buffers.Make(kind.operation, group, count);
      ASSIGN_OR_RETURN(const double seconds, timed([&] { return run(operation); }));
      AddTime(Name(kind.name), bytes, seconds, profile);
    }
    // There and back again: half of it is one way.
    Operation there = buffers.Make(index == 0 ? OpKind::kSend : OpKind::kReceive, group, count);
    Operation back = buffers.Make(index == 0 ? OpKind::kReceive : OpKind::kSend, group, count);
    there.peer = back.peer = 1 - index;
    ASSIGN_OR_RETURN(const double both, timed([&]() -> absl::Status {
                       RETURN_IF_ERROR(run(there));
                       return run(back);
                     }));
    AddTime("send", bytes, both / 2, profile);
  }
  ASSIGN_OR_RETURN(const double barrier, timed([&] { return run({.group = group}); }));
  AddTime(Name(program::CollectiveOp::kBarrier), 0, barrier, profile);
  return absl::OkStatus();
}

absl::Status MeasureInterference(collectives::Communicator& communicator,
                                 collectives::GroupId group, const TrainingSpec& spec,
                                 double seconds, v1::RankProfile& profile) {
  device::ThreadPool pool(spec.threads);
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainingRank> rank,
                   TrainingRank::Create(spec, nullptr, &pool));
  RETURN_IF_ERROR(rank->Step());  // touches what there is
  const RunOperation run = [&](const Operation& operation) {
    return RunAlone(communicator, operation);
  };
  for (const int64_t bytes : kInterferenceSizes) {
    const int64_t count = bytes / static_cast<int64_t>(sizeof(float));
    Buffers buffers(count);
    for (const MeasuredOperation& kind : kBesideSteps) {
      const Operation operation = buffers.Make(kind.operation, group, count);
      // What else the machine does comes and goes: medians of both by turns.
      constexpr int kTurns = 5;
      std::vector<double> lost, stretch;
      for (int turn = 0; turn < kTurns; ++turn) {
        ASSIGN_OR_RETURN(const Beside found,
                         MeasureBeside(run, operation, *rank, seconds / kTurns));
        lost.push_back(found.lost);
        stretch.push_back(found.stretch);
      }
      v1::Interference& found = *profile.add_interference();
      found.set_op(Name(kind.name));
      found.set_bytes(bytes);
      found.set_compute_lost(std::clamp(Median(std::move(lost)), 0.0, 0.95));
      found.set_communication_stretch(std::max(1.0, Median(std::move(stretch))));
    }
  }
  return absl::OkStatus();
}

void MeasureCopies(v1::RankProfile& profile) {
  for (const int64_t bytes : kCopySizes) {
    std::vector<std::byte> from(bytes), to(bytes);
    std::vector<double> found;
    for (int i = 0; i < 9; ++i) {
      const double begin = kClock.Now();
      std::memcpy(to.data(), from.data(), bytes);
      if (i > 0) found.push_back(kClock.Now() - begin);
      from[0] = to[bytes - 1];  // so that no copy is left out
    }
    v1::CopyTime& time = *profile.add_copies();
    time.set_bytes(bytes);
    time.set_seconds(Median(std::move(found)));
  }
}

double HostCopyRate(device::ThreadPool& pool, bool quick) {
  const int64_t part = quick ? 1 << 20 : 64 << 20;
  const int64_t bytes = part * pool.threads();
  std::vector<std::byte> from(bytes), to(bytes);
  std::vector<double> found;
  for (int i = 0; i < 6; ++i) {
    const double begin = kClock.Now();
    pool.ParallelFor(pool.threads(), [&](int64_t task, int) {
      std::memcpy(to.data() + task * part, from.data() + task * part, part);
    });
    if (i > 0) found.push_back(kClock.Now() - begin);
    from[0] = to[bytes - 1];  // so that no copy is left out
  }
  return static_cast<double>(bytes) / Median(std::move(found));
}

}  // namespace strata::worker
