// How requests reach the kernel. One thread's: each queue has a back end of its own.
#ifndef STRATA_MEMORY_SSD_IO_BACKEND_H_
#define STRATA_MEMORY_SSD_IO_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace strata::memory {

// Whole blocks of a file.
struct IoRequest {
  bool write = false;
  int file = -1;
  int64_t offset = 0;
  std::byte* data = nullptr;
  int64_t bytes = 0;
  int64_t id = 0;  // the caller's
};

struct IoCompletion {
  int64_t id = 0;
  int64_t result = 0;  // bytes that were moved, perhaps fewer than asked for; negative: -errno
};

class IoBackend {
 public:
  virtual ~IoBackend() = default;  // nothing is in flight

  // The caller keeps at most the depth given at creation in flight. Unavailable: the kernel refuses
  // requests altogether, as the first one shows; a request's own error is its completion's.
  virtual absl::Status Submit(const IoRequest& request) = 0;
  // Blocks until at least one of what is in flight is complete. How many of `done`, which is not
  // empty, were filled.
  virtual absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) = 0;
  // Processor time of threads of its own, those of the kernel not counted.
  virtual int64_t processor_nanos() const { return 0; }
};

// The kernel's ring (Axboe, "Efficient IO with io_uring", 2019). Containers' seccomp profiles
// forbid it, Docker's and containerd's by default.
std::unique_ptr<IoBackend> MakeUringBackend(int depth);
// The kernel's older asynchronous I/O (io_submit(2)); truly asynchronous with direct I/O only, and
// refused where the system's fs.aio-max-nr is used up.
std::unique_ptr<IoBackend> MakeAioBackend(int depth);
// Threads with pread(2) and pwrite(2), one per request in flight. Works anywhere.
std::unique_ptr<IoBackend> MakeThreadsBackend(int depth);

}  // namespace strata::memory

#endif  // STRATA_MEMORY_SSD_IO_BACKEND_H_
