#include "worker/trainer/calibration/disk_rates.h"

#include <atomic>
#include <barrier>
#include <cstddef>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "absl/types/span.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "memory/ssd/block_buffer.h"
#include "memory/ssd/ssd_store.h"

namespace strata::worker {
namespace {

using memory::BlockBuffer;
using memory::SsdClass;

constexpr int64_t kRequestBytes = 1 << 20;
constexpr int64_t kTransferBytes = 128 << 20, kQuickTransferBytes = 8 << 20;
constexpr int kDepths[] = {1, 8, 32};
constexpr double kSeconds = 1.5;  // of each rate

// What compresses as little as weights do: some disks would be faster than they are.
BlockBuffer RandomBuffer(int64_t bytes) {
  BlockBuffer buffer(bytes);
  std::mt19937_64 random(1);
  auto* words = reinterpret_cast<uint64_t*>(buffer.data());
  for (int64_t word = 0; word < bytes / 8; ++word) words[word] = random();
  return buffer;
}

// Transfers between the buffers and the store's two extents: the first is read, the second written.
class Transfers {
 public:
  Transfers(memory::SsdStore* store, int64_t bytes, std::byte* read, std::byte* written)
      : store_(store), bytes_(bytes), read_(read), written_(written) {}

  // Bytes per second, of as many threads; two are in step with each other, so that both move as
  // much.
  absl::StatusOr<double> Rate(bool reads, bool writes, double seconds) {
    const common::MonotonicClock clock;
    double begin = 0, end = 0;
    int turns = -1;
    std::atomic<bool> over = false;
    const auto turn = [&]() noexcept {
      end = clock.Now();
      if (++turns == 0) begin = end;
      over = turns > 0 && end - begin >= seconds;
    };
    const int count = static_cast<int>(reads) + static_cast<int>(writes);
    std::barrier together(count, turn);
    absl::Status statuses[2];
    const auto work = [&](bool write) {
      const auto queue = store_->OpenQueue();
      together.arrive_and_wait();
      while (!over) {
        statuses[write].Update(write ? Write(*queue) : Read(*queue));
        together.arrive_and_wait();
      }
    };
    std::vector<std::thread> threads;
    if (reads) threads.emplace_back(work, false);
    if (writes) threads.emplace_back(work, true);
    for (std::thread& thread : threads) thread.join();
    RETURN_IF_ERROR(statuses[false]);
    RETURN_IF_ERROR(statuses[true]);
    return static_cast<double>(turns) * static_cast<double>(count * bytes_) / (end - begin);
  }

  absl::Status Prepare() {
    const auto queue = store_->OpenQueue();
    RETURN_IF_ERROR(queue->Write(SsdClass::kStateWrite, 0, absl::MakeConstSpan(written_, bytes_)));
    return Write(*queue);
  }

 private:
  absl::Status Read(memory::SsdQueue& queue) {
    return queue.Read(SsdClass::kStateRead, 0, absl::MakeSpan(read_, bytes_));
  }
  absl::Status Write(memory::SsdQueue& queue) {
    return queue.Write(SsdClass::kStateWrite, bytes_, absl::MakeConstSpan(written_, bytes_));
  }

  memory::SsdStore* const store_;
  const int64_t bytes_;
  std::byte* const read_;
  std::byte* const written_;
};

}  // namespace

absl::StatusOr<v1::DiskProfile> MeasureDisk(const std::string& directory, bool quick) {
  const int64_t bytes = quick ? kQuickTransferBytes : kTransferBytes;
  const double seconds = quick ? 0.01 : kSeconds;
  const BlockBuffer read = RandomBuffer(bytes), written = RandomBuffer(bytes);
  v1::DiskProfile profile;
  profile.set_directory(directory);
  for (const int depth : kDepths) {
    ASSIGN_OR_RETURN(
        const std::unique_ptr<memory::SsdStore> store,
        memory::SsdStore::Create(
            {.paths = {{directory}}, .request_bytes = kRequestBytes, .queue_depth = depth},
            {{0, bytes}, {bytes, bytes}}));
    profile.set_backend(Name(store->backend()));
    profile.set_direct(store->direct());
    Transfers transfers(store.get(), bytes, read.data(), written.data());
    RETURN_IF_ERROR(transfers.Prepare());
    v1::DiskRate& rate = *profile.add_rates();
    rate.set_request_bytes(kRequestBytes);
    rate.set_depth(depth);
    ASSIGN_OR_RETURN(const double reads, transfers.Rate(true, false, seconds));
    ASSIGN_OR_RETURN(const double writes, transfers.Rate(false, true, seconds));
    ASSIGN_OR_RETURN(const double mixed, transfers.Rate(true, true, seconds));
    rate.set_read(reads);
    rate.set_write(writes);
    rate.set_mixed(mixed);
  }
  return profile;
}

}  // namespace strata::worker
