#include "memory/ssd/ssd_store.h"

#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"

namespace strata::memory {
namespace {

constexpr int64_t kBlock = kSsdBlockBytes;

// Memory that is not as new.
class Blocks {
 public:
  explicit Blocks(int64_t bytes) : buffer_(bytes) { std::memset(buffer_.data(), 0x55, bytes); }
  absl::Span<std::byte> all() { return buffer_.bytes(); }
  absl::Span<std::byte> part(int64_t offset, int64_t bytes) { return all().subspan(offset, bytes); }
  void Fill(std::mt19937_64& random) {
    for (std::byte& byte : all()) byte = static_cast<std::byte>(random());
  }

 private:
  BlockBuffer buffer_;
};

// Small, so that a few blocks have borders of all kinds.
SsdOptions Small(int paths, IoBackendKind backend) {
  SsdOptions options{.backend = backend,
                     .request_bytes = 2 * kBlock,
                     .queue_depth = 3,
                     .stripe_bytes = 3 * kBlock};
  options.paths.assign(paths, {.directory = testing::TempDir()});
  return options;
}

std::vector<SsdExtent> ExtentsOfBlocks(const std::vector<int64_t>& blocks) {
  std::vector<SsdExtent> extents;
  int64_t offset = 0;
  for (const int64_t count : blocks) {
    extents.push_back({offset, count * kBlock});
    offset += count * kBlock;
  }
  return extents;
}

class EveryBackend : public testing::TestWithParam<IoBackendKind> {
 protected:
  // A back end that this machine forbids is not tested on it.
  std::unique_ptr<SsdStore> Open(SsdOptions options, std::vector<SsdExtent> extents) {
    auto store = SsdStore::Create(std::move(options), std::move(extents));
    if (absl::IsUnavailable(store.status()) && GetParam() != IoBackendKind::kThreads) {
      std::cerr << store.status() << "\n";
      return nullptr;
    }
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }
};

TEST_P(EveryBackend, WhatIsReadIsWhatWasWrittenLast) {
  std::mt19937_64 random(1);
  for (const int paths : {1, 2, 3}) {
    const std::vector<SsdExtent> extents = ExtentsOfBlocks({1, 2, 3, 7, 1, 12, 5, 30, 1, 2});
    const int64_t bytes = extents.back().offset + extents.back().bytes;
    auto store = Open(Small(paths, GetParam()), extents);
    if (store == nullptr) GTEST_SKIP() << Name(GetParam()) << " does not work here";
    EXPECT_EQ(store->backend(), GetParam());
    auto queue = store->OpenQueue();
    Blocks model(bytes), memory(bytes);
    std::memset(model.all().data(), 0, bytes);  // never written: zeros
    for (int round = 0; round < 300; ++round) {
      const size_t first = random() % extents.size();
      const size_t last = first + random() % (extents.size() - first);
      const int64_t offset = extents[first].offset;
      const int64_t blocks = extents[last].offset + extents[last].bytes - offset;
      const int64_t rest = random() % 2 == 0 ? 0 : static_cast<int64_t>(random() % kBlock);
      const absl::Span<std::byte> part = memory.part(0, blocks - rest);
      std::memset(memory.part(0, blocks).data(), 0x55, blocks);
      if (random() % 2 == 0) {
        for (std::byte& byte : part) byte = static_cast<std::byte>(random());
        const absl::Status status = queue->Write(SsdClass::kStateWrite, offset, part);
        ASSERT_TRUE(status.ok()) << status;
        std::copy(part.begin(), part.end(), model.all().begin() + offset);
        std::memset(model.part(offset + blocks - rest, rest).data(), 0, rest);
      } else {
        const absl::Status status = queue->Read(SsdClass::kStateRead, offset, part);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(std::equal(part.begin(), part.end(), model.all().begin() + offset)) << round;
      }
      for (const std::byte byte : memory.part(blocks - rest, rest)) {
        ASSERT_EQ(byte, std::byte{0x55}) << round;  // not this range's
      }
    }
    EXPECT_GT(store->counters().bytes_written, 0);
    EXPECT_GT(store->counters().read_seconds, 0);
  }
}

TEST_P(EveryBackend, EveryFlippedBitIsFound) {
  std::mt19937_64 random(2);
  const std::vector<SsdExtent> extents = ExtentsOfBlocks({1, 8, 3, 20});
  const int64_t bytes = extents.back().offset + extents.back().bytes;
  auto store = Open(Small(1, GetParam()), extents);
  if (store == nullptr) GTEST_SKIP() << Name(GetParam()) << " does not work here";
  auto queue = store->OpenQueue();
  Blocks memory(bytes), block(kBlock);
  memory.Fill(random);
  ASSERT_TRUE(queue->Write(SsdClass::kStateWrite, 0, memory.all()).ok());
  for (int round = 0; round < 1000; ++round) {
    const int64_t at = static_cast<int64_t>(random() % bytes), begin = at / kBlock * kBlock;
    const auto bit = static_cast<std::byte>(1 << random() % 8);
    const auto flip = [&] {
      ASSERT_EQ(pread(store->file(0), block.all().data(), kBlock, begin), kBlock);
      block.all()[at - begin] ^= bit;
      ASSERT_EQ(pwrite(store->file(0), block.all().data(), kBlock, begin), kBlock);
    };
    flip();
    const absl::Status status = queue->Read(SsdClass::kStateRead, 0, memory.all());
    ASSERT_TRUE(absl::IsDataLoss(status)) << at << ": " << status;
    ASSERT_NE(status.message().find(testing::TempDir()), absl::string_view::npos) << status;
    flip();
  }
  EXPECT_TRUE(queue->Read(SsdClass::kStateRead, 0, memory.all()).ok());
}

TEST_P(EveryBackend, QueuesOfSeveralThreadsWorkAtOnce) {
  const std::vector<SsdExtent> extents = ExtentsOfBlocks({16, 16, 16, 16});
  auto store = Open(Small(2, GetParam()), extents);
  if (store == nullptr) GTEST_SKIP() << Name(GetParam()) << " does not work here";
  std::vector<std::thread> threads;
  for (const SsdExtent& extent : extents) {
    threads.emplace_back([&store, extent, queue = store->OpenQueue()] {
      std::mt19937_64 random(extent.offset);
      Blocks memory(extent.bytes), written(extent.bytes);
      for (int round = 0; round < 50; ++round) {
        written.Fill(random);
        EXPECT_TRUE(queue->Write(SsdClass::kStateWrite, extent.offset, written.all()).ok());
        EXPECT_TRUE(queue->Read(SsdClass::kStateRead, extent.offset, memory.all()).ok());
        EXPECT_TRUE(std::equal(memory.all().begin(), memory.all().end(), written.all().begin()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(, EveryBackend,
                         testing::Values(IoBackendKind::kUring, IoBackendKind::kAio,
                                         IoBackendKind::kThreads),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Lets every third request fail in a way of its choice: with an error, or by moving only a part.
class Faulty final : public IoBackend {
 public:
  Faulty(std::unique_ptr<IoBackend> real, int64_t fault) : real_(std::move(real)), fault_(fault) {}
  absl::Status Submit(const IoRequest& request) override {
    IoRequest shortened = request;
    const bool third = ++count_ % 3 == 0;
    if (third && fault_ > 0) shortened.bytes = std::min(request.bytes, fault_);
    if (third && fault_ < 0) failing_.push_back(request.id);
    return real_->Submit(shortened);
  }
  absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) override {
    auto count = real_->Wait(done);
    for (int i = 0; count.ok() && i < *count; ++i) {
      const auto fails = std::find(failing_.begin(), failing_.end(), done[i].id);
      if (fails == failing_.end()) continue;
      failing_.erase(fails);
      done[i].result = fault_;
    }
    return count;
  }

 private:
  const std::unique_ptr<IoBackend> real_;
  const int64_t fault_;  // -errno, or the most bytes that are moved
  int count_ = 0;
  std::vector<int64_t> failing_;
};

// One write of many requests, then one read.
std::pair<absl::Status, absl::Status> WriteAndRead(int64_t fault) {
  SsdOptions options = Small(2, IoBackendKind::kThreads);
  options.around_backend = [fault](std::unique_ptr<IoBackend> real) {
    return std::make_unique<Faulty>(std::move(real), fault);
  };
  auto store = SsdStore::Create(options, ExtentsOfBlocks({20}));
  EXPECT_TRUE(store.ok()) << store.status();
  auto queue = (*store)->OpenQueue();
  std::mt19937_64 random(3);
  Blocks written(20 * kBlock), memory(20 * kBlock);
  written.Fill(random);
  const absl::Status write = queue->Write(SsdClass::kStateWrite, 0, written.all());
  const absl::Status read = queue->Read(SsdClass::kStateRead, 0, memory.all());
  if (read.ok()) {
    EXPECT_TRUE(std::equal(memory.all().begin(), memory.all().end(), written.all().begin()));
  }
  return {write, read};
}

TEST(SsdQueue, RequestsThatMoveLessAreContinued) {
  const auto [write, read] = WriteAndRead(kBlock);
  EXPECT_TRUE(write.ok()) << write;
  EXPECT_TRUE(read.ok()) << read;
}

TEST(SsdQueue, InterruptedRequestsAreAskedForAgain) {
  for (const int error : {EINTR, EAGAIN}) {
    const auto [write, read] = WriteAndRead(-error);
    EXPECT_TRUE(write.ok()) << write;
    EXPECT_TRUE(read.ok()) << read;
  }
}

TEST(SsdQueue, DisksThatFailAreNamedWithThePlace) {
  const auto [write, read] = WriteAndRead(-EIO);
  for (const absl::Status& status : {write, read}) {
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find("Input/output error"), absl::string_view::npos) << status;
    EXPECT_NE(status.message().find(testing::TempDir()), absl::string_view::npos) << status;
  }
  EXPECT_TRUE(absl::IsResourceExhausted(WriteAndRead(-ENOSPC).first));
}

// Completes what came last first, one at a time. Writes fail while they should.
class LastFirst final : public IoBackend {
 public:
  explicit LastFirst(const bool* fails) : fails_(fails) {}
  absl::Status Submit(const IoRequest& request) override {
    requests_.push_back(request);
    return absl::OkStatus();
  }
  absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) override {
    const IoRequest request = requests_.back();
    requests_.pop_back();
    done[0] = {request.id, request.write
                               ? pwrite(request.file, request.data, request.bytes, request.offset)
                               : pread(request.file, request.data, request.bytes, request.offset)};
    if (request.write && *fails_) done[0].result = -EIO;
    return 1;
  }

 private:
  const bool* const fails_;
  std::vector<IoRequest> requests_;
};

std::unique_ptr<SsdStore> OpenLastFirst(const bool* fails, std::vector<SsdExtent> extents) {
  SsdOptions options = Small(2, IoBackendKind::kThreads);
  options.around_backend = [fails](std::unique_ptr<IoBackend>) {
    return std::make_unique<LastFirst>(fails);
  };
  auto store = SsdStore::Create(options, std::move(extents));
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

TEST(SsdQueue, ChecksumsAreOfBytesInARowInWhateverOrderTheyCome) {
  const std::vector<SsdExtent> extents = ExtentsOfBlocks({9, 1, 20, 2});
  const bool fails = false;
  auto store = OpenLastFirst(&fails, extents);
  ASSERT_NE(store, nullptr);
  auto queue = store->OpenQueue();
  std::mt19937_64 random(4);
  Blocks written(32 * kBlock), memory(32 * kBlock);
  written.Fill(random);
  const absl::Span<std::byte> most = written.part(0, 32 * kBlock - 100);
  ASSERT_TRUE(queue->Write(SsdClass::kStateWrite, 0, most).ok());
  for (const SsdExtent& extent : extents) {  // as they were written, and each by itself
    const int64_t bytes = std::min(extent.bytes, 32 * kBlock - 100 - extent.offset);
    const absl::Span<std::byte> part = memory.part(extent.offset, bytes);
    const absl::Status status = queue->Read(SsdClass::kStateRead, extent.offset, part);
    ASSERT_TRUE(status.ok()) << status;
  }
  EXPECT_TRUE(std::equal(most.begin(), most.end(), memory.all().begin()));
  EXPECT_TRUE(queue->Read(SsdClass::kStateRead, 0, memory.part(0, 32 * kBlock - 100)).ok());
}

TEST(SsdQueue, WhatAFailedWriteLeftIsNotTakenForBytes) {
  bool fails = false;
  auto store = OpenLastFirst(&fails, ExtentsOfBlocks({20, 12}));
  ASSERT_NE(store, nullptr);
  auto queue = store->OpenQueue();
  std::mt19937_64 random(5);
  Blocks memory(32 * kBlock);
  memory.Fill(random);
  ASSERT_TRUE(queue->Write(SsdClass::kStateWrite, 0, memory.all()).ok());
  fails = true;
  memory.Fill(random);
  EXPECT_TRUE(absl::IsDataLoss(queue->Write(SsdClass::kStateWrite, 0, memory.all())));
  for (const SsdExtent& extent : ExtentsOfBlocks({20, 12})) {
    const absl::Status status =
        queue->Read(SsdClass::kStateRead, extent.offset, memory.part(extent.offset, extent.bytes));
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  }
  fails = false;
  EXPECT_TRUE(queue->Write(SsdClass::kStateWrite, 0, memory.all()).ok());
  EXPECT_TRUE(queue->Read(SsdClass::kStateRead, 0, memory.all()).ok());
  EXPECT_EQ(store->counters().io.in_flight, 0);
}

TEST(SsdQueue, QueuesOfAllClassesShareWhatMayBeInFlight) {
  SsdOptions options = Small(1, IoBackendKind::kThreads);
  options.in_flight_bytes = 2 * options.request_bytes;
  auto store = SsdStore::Create(options, ExtentsOfBlocks({32, 32, 32, 32}));
  ASSERT_TRUE(store.ok()) << store.status();
  std::vector<std::thread> threads;
  for (int t = 0; t < kSsdClassCount; ++t) {
    threads.emplace_back([t, queue = (*store)->OpenQueue()] {
      Blocks memory(32 * kBlock);
      const auto request_class = static_cast<SsdClass>(t);
      for (int round = 0; round < 30; ++round) {
        EXPECT_TRUE(queue->Write(request_class, t * 32 * kBlock, memory.all()).ok());
        EXPECT_TRUE(queue->Read(request_class, t * 32 * kBlock, memory.all()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const SsdCounters counters = (*store)->counters();
  for (const int64_t bytes : counters.io.bytes) EXPECT_EQ(bytes, 60 * 32 * kBlock);
  EXPECT_EQ(counters.bytes_written, kSsdClassCount * 30 * 32 * kBlock);
  EXPECT_EQ(counters.io.in_flight, 0);
  // Requests that end at a stripe's border are of one block.
  EXPECT_LE(counters.io.most_in_flight, 2 * 4);
  EXPECT_GT(counters.processor_seconds, 0);
}

TEST(SsdQueue, MorePathsHaveAsManyRequestsInFlightEach) {
  for (const int paths : {1, 2, 4}) {
    SsdOptions options{.request_bytes = kBlock, .queue_depth = 3, .stripe_bytes = kBlock};
    options.paths.resize(paths, {testing::TempDir()});
    auto store = SsdStore::Create(options, ExtentsOfBlocks({64}));
    ASSERT_TRUE(store.ok()) << store.status();
    auto queue = (*store)->OpenQueue();
    Blocks memory(64 * kBlock);
    ASSERT_TRUE(queue->Write(SsdClass::kStateWrite, 0, memory.all()).ok());
    EXPECT_EQ((*store)->counters().io.most_in_flight, 3 * paths);
    for (const PathCounters& path : (*store)->counters().paths) {
      EXPECT_GE(path.most_in_flight, 3);
    }
  }
}

TEST(SsdQueue, BytesAreCountedByThePathThatTheyLieOn) {
  SsdOptions options{.paths = {{testing::TempDir()}, {testing::TempDir()}},
                     .stripe_bytes = 2 * kBlock};
  auto store = SsdStore::Create(options, ExtentsOfBlocks({6}));
  ASSERT_TRUE(store.ok()) << store.status();
  auto queue = (*store)->OpenQueue();
  Blocks memory(6 * kBlock);
  ASSERT_TRUE(queue->Write(SsdClass::kStateWrite, 0, memory.all()).ok());
  ASSERT_TRUE(queue->Read(SsdClass::kStateRead, 0, memory.all()).ok());
  const std::vector<PathCounters> paths = (*store)->counters().paths;
  ASSERT_EQ(paths.size(), 2);
  EXPECT_EQ(paths[0].bytes_written, 4 * kBlock);
  EXPECT_EQ(paths[1].bytes_written, 2 * kBlock);
  EXPECT_EQ(paths[0].bytes_read, 4 * kBlock);
  EXPECT_EQ(paths[1].bytes_read, 2 * kBlock);
  for (const PathCounters& path : paths) {
    EXPECT_GT(path.read_seconds, 0);
    EXPECT_GT(path.write_seconds, 0);
    EXPECT_GE(path.request_seconds, path.busy_seconds);
    EXPECT_GE(path.most_in_flight, 1);
  }
  (*store)->BeginPeriod();
  EXPECT_EQ((*store)->counters().paths[0].most_in_flight, 0);
}

// A millisecond passes whenever someone looks.
class TickingClock final : public common::Clock {
 public:
  double Now() const override { return static_cast<double>(++ticks_) * 1e-3; }

 private:
  mutable std::atomic<int64_t> ticks_ = 0;
};

TEST(SsdQueue, PacedWritesKeepToThePlan) {
  const TickingClock clock;
  SsdOptions options{.paths = {{testing::TempDir()}},
                     .backend = IoBackendKind::kThreads,
                     .write_rate = 4e6,
                     .clock = &clock};
  auto store = SsdStore::Create(options, ExtentsOfBlocks({512}));
  ASSERT_TRUE(store.ok()) << store.status();
  auto queue = (*store)->OpenQueue();
  Blocks memory(512 * kBlock);
  ASSERT_TRUE(queue->Write(SsdClass::kStateWrite, 0, memory.all()).ok());
  const int64_t busiest = (*store)->counters().io.busiest_written_bytes;
  EXPECT_GT(busiest, 0);
  EXPECT_LE(busiest, 600'000);
  EXPECT_TRUE(queue->Read(SsdClass::kStateRead, 0, memory.all()).ok());
  for (const double rate : {-1.0, 1.0, std::nan("")}) {
    options.write_rate = rate;
    EXPECT_TRUE(absl::IsInvalidArgument(SsdStore::Create(options, ExtentsOfBlocks({1})).status()));
  }
}

TEST(SsdQueue, RangesThatAreNoExtentsAndMemoryThatIsNoBlocksAreRefused) {
  auto store =
      SsdStore::Create(Small(1, IoBackendKind::kThreads), {{0, kBlock}, {2 * kBlock, 2 * kBlock}});
  ASSERT_TRUE(store.ok()) << store.status();
  auto queue = (*store)->OpenQueue();
  Blocks memory(4 * kBlock);
  for (const auto& [offset, bytes] : {std::pair{int64_t{0}, 2 * kBlock},
                                      {2 * kBlock, kBlock},
                                      {3 * kBlock, kBlock},
                                      {4 * kBlock, kBlock},
                                      {int64_t{0}, int64_t{0}},
                                      {int64_t{0}, 4 * kBlock}}) {
    EXPECT_TRUE(
        absl::IsInvalidArgument(queue->Read(SsdClass::kStateRead, offset, memory.part(0, bytes))))
        << offset;
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(queue->Write(SsdClass::kStateWrite, 0, memory.part(8, kBlock))));
  EXPECT_TRUE(queue->Write(SsdClass::kStateWrite, 2 * kBlock, memory.part(0, 2 * kBlock)).ok());
}

TEST(SsdStore, MoreThanTheDiskHasIsRefusedWithTheBytes) {
  struct statvfs disk {};
  ASSERT_EQ(statvfs(testing::TempDir().c_str(), &disk), 0);
  const int64_t room = static_cast<int64_t>(disk.f_bavail * disk.f_frsize) / kBlock * kBlock;
  const auto store =
      SsdStore::Create({.paths = {{testing::TempDir()}}}, {{room + (int64_t{64} << 30), kBlock}});
  EXPECT_TRUE(absl::IsResourceExhausted(store.status())) << store.status();
  EXPECT_NE(store.status().message().find("are free"), absl::string_view::npos) << store.status();
}

TEST(SsdStore, PathsThatCannotBeUsedAreNamed) {
  const auto missing = SsdStore::Create({.paths = {{"/nowhere/at/all"}}}, {{0, kBlock}});
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  EXPECT_NE(missing.status().message().find("/nowhere/at/all"), absl::string_view::npos);
  EXPECT_TRUE(absl::IsInvalidArgument(SsdStore::Create({}, {{0, kBlock}}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      SsdStore::Create({.paths = {{testing::TempDir()}}}, {{0, kBlock}, {0, kBlock}}).status()));
}

// Nothing to be found and reclaimed: the folder is empty while the store is open, and the disk has
// its blocks back when a process that was killed is gone.
TEST(SsdStore, AKilledProcessLeavesNothingBehind) {
  const std::string folder = testing::TempDir() + "/killed";
  std::filesystem::create_directory(folder);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto store = SsdStore::Create({.paths = {{folder}}, .backend = IoBackendKind::kThreads},
                                  {{0, int64_t{64} << 20}});
    const char done = store.ok() ? 1 : 0;
    if (write(ready[1], &done, 1) == 1) pause();
    _exit(1);
  }
  char done = 0;
  ASSERT_EQ(read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, 1);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

}  // namespace
}  // namespace strata::memory
