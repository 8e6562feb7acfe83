// The SSD tier's bytes: one flat address space over files that were allocated beforehand.
//
// Striped over the paths, moved by direct I/O (the page cache would hold a second copy in host
// memory, which the tier exists to spare), each extent with a checksum that every read verifies.
// The files have no names: their space is the disk's again when the process ends, however it ends,
// so nothing is left to be found and reclaimed.
#ifndef STRATA_MEMORY_SSD_SSD_STORE_H_
#define STRATA_MEMORY_SSD_SSD_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/clock.h"
#include "common/digest.h"
#include "memory/ssd/block_buffer.h"
#include "memory/ssd/io_backend.h"
#include "memory/ssd/io_scheduler.h"
#include "memory/ssd/path_load.h"
#include "memory/ssd/stripes.h"

namespace strata::memory {

struct SsdPath {
  std::string directory;    // exists
  int64_t limit_bytes = 0;  // 0: what the disk has
};

enum class IoBackendKind : uint8_t { kAuto, kUring, kAio, kThreads };
const char* Name(IoBackendKind kind);

struct SsdOptions {
  std::vector<SsdPath> paths;
  IoBackendKind backend = IoBackendKind::kAuto;  // the first of the others, in order, that works
  // What the bandwidth of NVMe drives asks for (DeepSpeed's DeepNVMe: 1 MiB at a depth of 8).
  int64_t request_bytes = 1 << 20;
  // Requests of one queue in flight for each path.
  int queue_depth = 8;
  // What all queues together have in flight, as much that reads as that writes; 0: the depth's
  // requests for each path.
  int64_t in_flight_bytes = 0;
  // Bytes per second that writes are spread to at first; 0: as fast as they come.
  double write_rate = 0;
  int64_t stripe_bytes = 4 << 20;        // at most; less where paths are small
  const common::Clock* clock = nullptr;  // null: the monotonic clock
  // Stands around a queue's back end, for tests that let disks fail. Null: nothing does.
  std::function<std::unique_ptr<IoBackend>(std::unique_ptr<IoBackend>)> around_backend;
};

// Of the address space; whole blocks.
struct SsdExtent {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Since the store was made. Seconds are those that queues spent moving bytes, each for itself.
struct SsdCounters {
  int64_t bytes_read = 0, bytes_written = 0;  // of transfers that succeeded
  double read_seconds = 0, write_seconds = 0;
  // Of the threads that read and write, checksums included, and of back ends' own.
  double processor_seconds = 0;
  IoCounters io;
  std::vector<PathCounters> paths;  // in the order of SsdOptions::paths
};

class SsdQueue;

class SsdStore {
 public:
  // `extents`: ascending and disjoint; what is read and written whole. Files are allocated up to
  // the last one's end. InvalidArgument: extents that are none, no path; NotFound, PermissionDenied
  // and others: a path cannot be used; ResourceExhausted, with the bytes: paths' limits or disks
  // have no such room; Unavailable: a back end that was asked for does not work here.
  static absl::StatusOr<std::unique_ptr<SsdStore>> Create(SsdOptions options,
                                                          std::vector<SsdExtent> extents);
  ~SsdStore();
  SsdStore(const SsdStore&) = delete;
  SsdStore& operator=(const SsdStore&) = delete;

  // The store outlives its queues.
  std::unique_ptr<SsdQueue> OpenQueue();

  // Those that begin in the range.
  std::vector<SsdExtent> ExtentsOf(int64_t offset, int64_t bytes) const;

  int64_t bytes() const { return bytes_; }
  IoBackendKind backend() const { return options_.backend; }  // never kAuto
  // Whether all paths take direct I/O: those in memory and some overlays do not.
  bool direct() const { return direct_; }
  SsdCounters counters() const;
  IoCounters io() const { return scheduler_.counters(); }  // of the counters
  // What was busiest or most in the counters counts from here.
  void BeginPeriod();
  const std::vector<SsdPath>& paths() const { return options_.paths; }
  double write_rate() const { return scheduler_.write_rate(); }
  void SetWriteRate(double rate) { scheduler_.SetWriteRate(rate); }  // as IoScheduler's
  int file(int path) const { return files_[path]; }                  // for tests

 private:
  friend class SsdQueue;
  struct Extent {
    SsdExtent range;
    uint64_t checksum = 0;
    bool written = false;
  };

  SsdStore(SsdOptions options, Stripes stripes, int64_t bytes)
      : options_(std::move(options)),
        stripes_(std::move(stripes)),
        bytes_(bytes),
        loads_(options_.paths.size()),
        scheduler_({.most_bytes = options_.in_flight_bytes,
                    .write_rate = options_.write_rate,
                    .clock = options_.clock}) {}
  absl::Status OpenFiles();
  absl::StatusOr<int> OpenFile(const SsdPath& path);
  absl::Status ChooseBackend();
  std::unique_ptr<IoBackend> MakeBackend(IoBackendKind kind) const;
  int requests_at_once() const {
    return options_.queue_depth * static_cast<int>(options_.paths.size());
  }
  // The extents that make up the range. InvalidArgument: none do.
  absl::StatusOr<absl::Span<Extent>> Find(int64_t offset, int64_t bytes);
  // "/scratch, byte 8192 of its file".
  std::string Where(int64_t offset) const;

  SsdOptions options_;
  const Stripes stripes_;
  const int64_t bytes_;
  std::vector<PathLoad> loads_;  // per path
  IoScheduler scheduler_;
  bool direct_ = true;
  std::vector<int> files_;  // per path
  std::vector<Extent> extents_;
  std::atomic<int64_t> bytes_read_ = 0, bytes_written_ = 0, read_nanos_ = 0, write_nanos_ = 0;
  std::atomic<int64_t> processor_nanos_ = 0;
};

// One thread's requests; several queues work at once. Who reads or writes an extent that another
// queue writes does so before or after.
class SsdQueue {
 public:
  // Both block; the store's queues take turns by class. The range, up to its last block's end, is
  // one extent or several that follow each other without a gap. Memory begins at a multiple of
  // kSsdBlockBytes; exactly these bytes of it are touched: what is left of the last block passes
  // through one of the queue's own. What was never written is zeros. DataLoss, with path and place:
  // the disk gave other bytes than were written, or none (EIO); ResourceExhausted: a disk that
  // filled up all the same. What a failed write left behind does not match its checksum.
  absl::Status Read(SsdClass request_class, int64_t offset, absl::Span<std::byte> to);
  absl::Status Write(SsdClass request_class, int64_t offset, absl::Span<const std::byte> from);

 private:
  friend class SsdStore;
  // What is in flight of the range that Move is at.
  struct Piece {
    int64_t offset = 0;  // in the address space
    std::byte* data = nullptr;
    int64_t bytes = 0;  // still to be moved; 0: not in flight
    int64_t taken = 0;  // of the scheduler's tokens
    int path = 0;
  };

  // Memory that stands for a range of the address space: whole blocks at `data`, then the rest.
  struct Memory {
    int64_t offset = 0;  // of the range
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t whole() const { return bytes / kSsdBlockBytes * kSsdBlockBytes; }
    int64_t whole_end() const { return offset + whole(); }
  };

  // Extents in a row on their way, and the checksum that follows their bytes.
  struct Transfer {
    IoScheduler::Claim claim;
    Memory memory;
    absl::Span<SsdStore::Extent> extents;
    int64_t submitted = 0, hashed = 0;          // bytes of the address space before it are
    size_t extent = 0;                          // that `hashed` is in
    const SsdStore::Extent* differs = nullptr;  // reads: the first whose checksum does
    uint64_t found = 0;                         // instead

    bool write() const { return claim.write; }
    int64_t end() const { return extents.back().range.offset + extents.back().range.bytes; }
  };

  SsdQueue(SsdStore* store, std::unique_ptr<IoBackend> backend);
  Transfer TransferOf(bool write, SsdClass request_class, const Memory& memory,
                      absl::Span<SsdStore::Extent> extents);
  // Whoever waits for the disk hashes meanwhile. Of writes all extents have the new checksums
  // afterwards, failed or not.
  absl::Status Move(Transfer& transfer);
  // As many requests as there is room for; at least one is in flight then.
  absl::Status SubmitSome(Transfer& transfer);
  int64_t NextBytes(const Transfer& transfer) const;
  absl::Status SubmitNext(Transfer& transfer, int64_t bytes);
  absl::Status Submit(const Transfer& transfer, int slot);
  // Waits for some; the pieces that are complete are free again, of others the rest is asked for.
  absl::Status Advance(Transfer& transfer);
  absl::Status Continue(Transfer& transfer, const IoCompletion& completion);
  void Drain(Transfer& transfer);
  // What may be hashed: of writes all that is under way, of reads what is there without a gap.
  int64_t Known(const Transfer& transfer) const;
  void HashTo(int64_t end, Transfer& transfer);
  void FinishExtent(Transfer& transfer);
  std::byte* At(const Memory& memory, int64_t offset) const;
  void Clear(const Memory& memory, SsdExtent extent);
  void Free(const Transfer& transfer, int slot);
  bool busy() const { return free_.size() < pieces_.size(); }

  SsdStore* const store_;
  const std::unique_ptr<IoBackend> backend_;
  std::vector<Piece> pieces_;  // by the id of their request
  std::vector<int> free_;      // of pieces_
  std::vector<IoCompletion> completions_;
  BlockBuffer rest_{kSsdBlockBytes};
  common::Checksum checksum_;
};

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_SSD_STORE_H_
