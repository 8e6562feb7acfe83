#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "memory/ssd/io_backend.h"

namespace strata::memory {
namespace {

absl::Status Refused(const char* call) {
  return absl::UnavailableError(
      absl::StrCat("asynchronous I/O: ", call, ": ", std::strerror(errno),
                   errno == EAGAIN ? " (raise sysctl fs.aio-max-nr, or end what uses it up)" : ""));
}

// The calls themselves: libaio adds nothing to them that is needed here.
class AioBackend final : public IoBackend {
 public:
  explicit AioBackend(int depth) : blocks_(depth), events_(depth) {
    for (iocb& block : blocks_) free_.push_back(&block);
  }
  ~AioBackend() override {
    if (context_ != 0) syscall(SYS_io_destroy, context_);
  }

  absl::Status Submit(const IoRequest& request) override {
    RETURN_IF_ERROR(Open());
    if (free_.empty()) return absl::InternalError("asynchronous I/O: more than its depth");
    iocb* block = free_.back();
    *block = {};
    block->aio_data = static_cast<uint64_t>(request.id);
    block->aio_lio_opcode = request.write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
    block->aio_fildes = static_cast<uint32_t>(request.file);
    block->aio_buf = reinterpret_cast<uint64_t>(request.data);
    block->aio_nbytes = static_cast<uint64_t>(request.bytes);
    block->aio_offset = request.offset;
    int64_t taken;
    do taken = syscall(SYS_io_submit, context_, 1L, &block);
    while (taken < 0 && (errno == EINTR || errno == EAGAIN));
    if (taken < 0) return Refused("io_submit");
    free_.pop_back();
    return absl::OkStatus();
  }

  absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) override {
    const auto most = static_cast<int64_t>(std::min(done.size(), events_.size()));
    int64_t count;
    do count = syscall(SYS_io_getevents, context_, 1L, most, events_.data(), nullptr);
    while (count < 0 && errno == EINTR);
    if (count < 0) return Refused("io_getevents");
    for (int64_t i = 0; i < count; ++i) {
      done[i] = {static_cast<int64_t>(events_[i].data), events_[i].res};
      free_.push_back(reinterpret_cast<iocb*>(events_[i].obj));
    }
    return static_cast<int>(count);
  }

 private:
  absl::Status Open() {
    if (context_ != 0) return absl::OkStatus();
    const int64_t failed = syscall(SYS_io_setup, static_cast<unsigned>(blocks_.size()), &context_);
    return failed < 0 ? Refused("io_setup") : absl::OkStatus();
  }

  aio_context_t context_ = 0;
  std::vector<iocb> blocks_;
  std::vector<io_event> events_;
  std::vector<iocb*> free_;
};

}  // namespace

std::unique_ptr<IoBackend> MakeAioBackend(int depth) { return std::make_unique<AioBackend>(depth); }

}  // namespace strata::memory
