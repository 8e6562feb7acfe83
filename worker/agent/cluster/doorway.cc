#include "worker/agent/cluster/doorway.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "common/small_file.h"
#include "common/status_macros.h"
#include "worker/shared/unix_socket.h"

namespace strata::worker {

absl::StatusOr<std::unique_ptr<Doorway>> Doorway::Open(const std::string& path, Guests guests,
                                                       OnHello on_hello, OnStop on_stop,
                                                       const common::Clock* clock) {
  ASSIGN_OR_RETURN(const int listener, ListenAt(path));
  std::unique_ptr<Doorway> doorway(
      new Doorway(Descriptor(listener), guests, std::move(on_hello), std::move(on_stop), clock));
  if (guests == Guests::kAllUsers && chmod(path.c_str(), 0666) != 0) {
    return common::FileError(path, "chmod", errno);
  }
  return doorway;
}

Doorway::Doorway(Descriptor listener, Guests guests, OnHello on_hello, OnStop on_stop,
                 const common::Clock* clock)
    : listener_(std::move(listener)),
      who_(guests),
      on_hello_(std::move(on_hello)),
      on_stop_(std::move(on_stop)),
      clock_(clock) {}

void Doorway::AddTo(std::vector<pollfd>& waiting) {
  waiting.push_back({guests_.size() < kMostWaiting ? listener_.get() : -1, POLLIN, 0});
  for (const Guest& guest : guests_) waiting.push_back({guest.socket.get(), POLLIN, 0});
  polled_ = 1 + static_cast<int>(guests_.size());
}

void Doorway::Handle(const pollfd* found) {
  const double now = clock_->Now();
  for (size_t i = 0; i < guests_.size(); ++i) {
    if (found[i + 1].revents != 0) Hear(guests_[i]);
    if (now - guests_[i].came_at > kHelloSeconds) guests_[i].gone = true;
  }
  std::erase_if(guests_, [](const Guest& guest) { return guest.gone; });
  if (found[0].revents != 0) Accept();
}

void Doorway::Accept() {
  Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) return;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  // The socket's mode keeps others out already, unless somebody has changed it.
  if (who_ == Guests::kOwnUser && peer.uid != geteuid()) {
    std::fprintf(stderr, "strata-worker: process %d of user %u is no trainer of this agent\n",
                 peer.pid, peer.uid);
    return;
  }
  const int number = socket.get();
  guests_.push_back(
      {std::move(socket), FrameReceiver(number), peer.pid, peer.uid, clock_->Now(), false});
}

void Doorway::Hear(Guest& guest) {
  if (!guest.receiver.Read()) guest.gone = true;
  v1::TrainerEvent event;
  const absl::StatusOr<bool> whole = guest.receiver.Next(&event);
  if (whole.ok() && !*whole) return;
  guest.gone = true;  // from here
  if (whole.ok() && event.has_stop_agent() && guest.user == geteuid()) {
    return on_stop_(std::move(guest.socket));
  }
  if (!whole.ok() || !event.has_hello()) return;
  if (on_hello_(event.hello(), guest.pid, guest.socket, guest.receiver)) return;
  v1::TrainerCommand command;
  command.mutable_end()->set_reason("this node's agent does not know it");
  static_cast<void>(FrameSender(guest.socket.get()).Send(command));
}

}  // namespace strata::worker
