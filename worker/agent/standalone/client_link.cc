#include "worker/agent/standalone/client_link.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::worker {
namespace {

// Now and then the loop looks whether its parent lives, whatever became of the pipes.
constexpr int kSocketLookMs = 1000;

}  // namespace

absl::StatusOr<std::unique_ptr<ClientLink>> ClientLink::Open(int input, int output) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  sigaddset(&interrupts, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &interrupts, nullptr);
  Descriptor signals(signalfd(-1, &interrupts, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals.is_open()) {
    return absl::InternalError(absl::StrCat("signalfd: ", strerror(errno)));
  }
  RETURN_IF_ERROR(SetNonBlocking(input));
  RETURN_IF_ERROR(SetNonBlocking(output));
  return std::unique_ptr<ClientLink>(new ClientLink(input, output, std::move(signals)));
}

ClientLink::ClientLink(int input, int output, Descriptor signals)
    : input_(input),
      output_(output),
      parent_(getppid()),
      signals_(std::move(signals)),
      receiver_(input),
      sender_(output) {}

void ClientLink::AddTo(std::vector<pollfd>& waiting) const {
  waiting.push_back({signals_.get(), POLLIN, 0});
  waiting.push_back({gone_ ? -1 : input_, POLLIN, 0});
  // Without POLLOUT poll still tells when the reader of a pipe has closed it.
  waiting.push_back({gone_ ? -1 : output_, static_cast<int16_t>(sender_.idle() ? 0 : POLLOUT), 0});
}

void ClientLink::Handle(const pollfd* found) {
  if (found[0].revents & POLLIN) {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) ++interrupts_;
  }
  if (found[1].revents != 0 && !receiver_.Read()) gone_ = true;
  if (found[2].revents & POLLERR) gone_ = true;
  if (found[2].revents & POLLOUT && !sender_.Flush().ok()) gone_ = true;
  if (getppid() != parent_) gone_ = true;
}

void ClientLink::Wait() {
  std::vector<pollfd> waiting;
  AddTo(waiting);
  if (poll(waiting.data(), waiting.size(), kSocketLookMs) < 0) return;
  Handle(waiting.data());
}

absl::StatusOr<v1::StandaloneRequest> ClientLink::ReadRequest() {
  for (;;) {
    v1::StandaloneRequest request;
    ASSIGN_OR_RETURN(const bool whole, receiver_.Next(&request));
    if (whole) return request;
    if (gone_) return absl::CancelledError("the client closed its pipe before its request ended");
    if (interrupts_ > 0) return absl::CancelledError("interrupted");
    Wait();
  }
}

void ClientLink::Send(const v1::StandaloneEvent& event) {
  if (!gone_ && !sender_.Send(event).ok()) gone_ = true;
}

void ClientLink::Notice(v1::Notice::Severity severity, const std::string& text) {
  v1::StandaloneEvent event;
  event.mutable_notice()->set_severity(severity);
  event.mutable_notice()->set_text(text);
  Send(event);
}

void ClientLink::Finish(const v1::Finished& finished) {
  v1::StandaloneEvent event;
  *event.mutable_finished() = finished;
  Send(event);
  while (!gone_ && !sender_.idle()) Wait();
}

}  // namespace strata::worker
