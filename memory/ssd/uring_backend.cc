#include <liburing.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "memory/ssd/io_backend.h"

namespace strata::memory {
namespace {

absl::Status Refused(const char* call, int error) {
  return absl::UnavailableError(absl::StrCat("io_uring: ", call, ": ", std::strerror(error)));
}

class UringBackend final : public IoBackend {
 public:
  explicit UringBackend(int depth) : depth_(static_cast<unsigned>(depth)) {}
  ~UringBackend() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  absl::Status Submit(const IoRequest& request) override {
    RETURN_IF_ERROR(Open());
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) return absl::InternalError("io_uring: more in flight than its depth");
    const auto bytes = static_cast<unsigned>(request.bytes);
    if (request.write) {
      io_uring_prep_write(entry, request.file, request.data, bytes, request.offset);
    } else {
      io_uring_prep_read(entry, request.file, request.data, bytes, request.offset);
    }
    io_uring_sqe_set_data64(entry, static_cast<uint64_t>(request.id));
    int taken;
    do taken = io_uring_submit(&ring_);
    while (taken == -EINTR || taken == -EAGAIN || taken == -EBUSY);
    return taken < 0 ? Refused("io_uring_enter", -taken) : absl::OkStatus();
  }

  absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) override {
    io_uring_cqe* entry = nullptr;
    int failed;
    do failed = io_uring_wait_cqe(&ring_, &entry);
    while (failed == -EINTR);
    if (failed < 0) return Refused("io_uring_enter", -failed);
    int count = 0;
    do {
      done[count++] = {static_cast<int64_t>(io_uring_cqe_get_data64(entry)), entry->res};
      io_uring_cqe_seen(&ring_, entry);
    } while (count < static_cast<int>(done.size()) && io_uring_peek_cqe(&ring_, &entry) == 0);
    return count;
  }

 private:
  // When the first request comes: the ring belongs to the thread that makes it. Completions are
  // worked off where they are waited for, not by interrupting that thread; kernel 6.1 on.
  absl::Status Open() {
    if (open_) return absl::OkStatus();
    int failed = io_uring_queue_init(depth_, &ring_,
                                     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    if (failed == -EINVAL) failed = io_uring_queue_init(depth_, &ring_, 0);
    if (failed < 0) return Refused("io_uring_setup", -failed);
    open_ = true;
    return absl::OkStatus();
  }

  const unsigned depth_;
  io_uring ring_{};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<IoBackend> MakeUringBackend(int depth) {
  return std::make_unique<UringBackend>(depth);
}

}  // namespace strata::memory
