#include <libaio.h>

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

absl::Status Refused(const char* call, int error) {
  return absl::UnavailableError(
      absl::StrCat("libaio: ", call, ": ", std::strerror(error),
                   error == EAGAIN ? " (raise sysctl fs.aio-max-nr, or end what uses it up)" : ""));
}

class LibaioBackend final : public IoBackend {
 public:
  explicit LibaioBackend(int depth) : blocks_(depth), events_(depth) {
    for (iocb& block : blocks_) free_.push_back(&block);
  }
  ~LibaioBackend() override {
    if (context_ != nullptr) io_destroy(context_);
  }

  absl::Status Submit(const IoRequest& request) override {
    RETURN_IF_ERROR(Open());
    if (free_.empty()) return absl::InternalError("libaio: more in flight than its depth");
    iocb* block = free_.back();
    if (request.write) {
      io_prep_pwrite(block, request.file, request.data, request.bytes, request.offset);
    } else {
      io_prep_pread(block, request.file, request.data, request.bytes, request.offset);
    }
    block->data = reinterpret_cast<void*>(request.id);
    int taken;
    do taken = io_submit(context_, 1, &block);
    while (taken == -EINTR || taken == -EAGAIN);
    if (taken < 0) return Refused("io_submit", -taken);
    free_.pop_back();
    return absl::OkStatus();
  }

  absl::StatusOr<int> Wait(absl::Span<IoCompletion> done) override {
    const auto most = static_cast<int64_t>(std::min(done.size(), events_.size()));
    int count;
    do count = io_getevents(context_, 1, most, events_.data(), nullptr);
    while (count == -EINTR);
    if (count < 0) return Refused("io_getevents", -count);
    for (int i = 0; i < count; ++i) {
      done[i] = {reinterpret_cast<int64_t>(events_[i].data), static_cast<int64_t>(events_[i].res)};
      free_.push_back(events_[i].obj);
    }
    return count;
  }

 private:
  absl::Status Open() {
    if (context_ != nullptr) return absl::OkStatus();
    const int failed = io_setup(static_cast<int>(blocks_.size()), &context_);
    return failed < 0 ? Refused("io_setup", -failed) : absl::OkStatus();
  }

  io_context_t context_ = nullptr;
  std::vector<iocb> blocks_;
  std::vector<io_event> events_;
  std::vector<iocb*> free_;
};

}  // namespace

std::unique_ptr<IoBackend> MakeLibaioBackend(int depth) {
  return std::make_unique<LibaioBackend>(depth);
}

}  // namespace strata::memory
