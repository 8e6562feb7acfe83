#include "collectives/process_transport.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::collectives {

absl::StatusOr<std::unique_ptr<ProcessTransport>> ProcessTransport::Create(
    int rank, std::vector<Peer> peers, std::unique_ptr<SharedTransport> shared,
    std::unique_ptr<UcxTransport> ucx) {
  common::Descriptor wake(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake.is_open()) {
    return absl::UnavailableError(absl::StrCat("eventfd: ", std::strerror(errno)));
  }
  return std::unique_ptr<ProcessTransport>(new ProcessTransport(
      rank, std::move(peers), std::move(shared), std::move(ucx), std::move(wake)));
}

absl::Status ProcessTransport::Connect(int peer) {
  const Peer& address = peers_[peer];
  return IsShared(peer) ? shared_->Connect(peer, address.door)
                        : ucx_->Connect(peer, address.ucx, address.ucx_notices_loss);
}

void ProcessTransport::Send(Transfer* transfer) {
  IsShared(transfer->peer) ? shared_->Send(transfer) : ucx_->Send(transfer);
}

void ProcessTransport::Receive(Transfer* transfer, uint64_t mask) {
  IsShared(transfer->peer) ? shared_->Receive(transfer, mask) : ucx_->Receive(transfer, mask);
}

bool ProcessTransport::Poll() {
  bool news = shared_ != nullptr && shared_->Poll();
  news |= ucx_->Poll();
  return news;
}

bool ProcessTransport::Probe(uint64_t tag, uint64_t mask, uint64_t* found) {
  return (shared_ != nullptr && shared_->Probe(tag, mask, found)) || ucx_->Probe(tag, mask, found);
}

void ProcessTransport::Wait(absl::Duration timeout) {
  bool sleep = ucx_->BeginSleep();
  if (shared_ != nullptr) sleep &= shared_->BeginSleep();
  // A negative number stands for nothing.
  pollfd files[3] = {
      {.fd = wake_.get(), .events = POLLIN, .revents = 0},
      {.fd = ucx_->file(), .events = POLLIN, .revents = 0},
      {.fd = shared_ != nullptr ? shared_->file() : -1, .events = POLLIN, .revents = 0}};
  const timespec time = absl::ToTimespec(std::max(timeout, absl::ZeroDuration()));
  // Ending early, as a signal does, is allowed.
  const bool readable = sleep && ppoll(files, 3, &time, nullptr) > 0;
  if (readable && files[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = read(wake_.get(), &count, sizeof(count));
  }
  if (shared_ != nullptr) shared_->EndSleep(readable && files[2].revents != 0);
}

void ProcessTransport::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = write(wake_.get(), &one, sizeof(one));
}

void ProcessTransport::Abort() {
  if (shared_ != nullptr) shared_->Abort();
  ucx_->Abort();
}

}  // namespace strata::collectives
