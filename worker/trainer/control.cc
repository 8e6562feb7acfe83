#include "worker/trainer/control.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "worker/shared/unix_socket.h"

namespace strata::worker {
namespace {

// A task, a start: more never wait.
constexpr size_t kMaxWaiting = 8;
constexpr int kReconnectMs = 100;
constexpr int kLookMs = 1000;

absl::Status Gone() { return absl::CancelledError("the agent is gone"); }

}  // namespace

Control::Control(int socket, CheckpointMail* mail)
    : socket_(socket), mail_(mail), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  STRATA_CHECK(wake_ >= 0);
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  thread_ = std::thread([this] { Serve(); });
}

Control::~Control() {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return gone_ || outbox_.drained(); });
    closing_ = true;
  }
  changed_.notify_all();
  Wake();
  thread_.join();
  if (socket_ >= 0) close(socket_);
  close(wake_);
}

void Control::Serve() {
  heard_ = clock_.Now();
  while (Turn()) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return;
  }
  AgentGone();
}

bool Control::Turn() {
  if (socket_ < 0) Reconnect();
  bool more = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return true;
    more = socket_ >= 0 && !outbox_.Bytes().empty();
  }
  pollfd waiting[2] = {{socket_, static_cast<int16_t>(more ? POLLIN | POLLOUT : POLLIN), 0},
                       {wake_, POLLIN, 0}};
  if (poll(waiting, 2, socket_ < 0 ? kReconnectMs : kLookMs) < 0 && errno != EINTR) {
    why_ = absl::StrCat("poll: ", strerror(errno));
    return false;
  }
  eventfd_t count = 0;
  eventfd_read(wake_, &count);
  if (socket_ >= 0) {
    Flush();
    if (waiting[0].revents & (POLLIN | POLLHUP | POLLERR) && !Receive()) return false;
  }
  if (lease_.seconds() > 0 && clock_.Now() - heard_ > lease_.seconds()) {
    why_ = absl::StrCat("no word of it for ", lease_.seconds(), " seconds");
    return false;
  }
  return true;
}

bool Control::Disconnected(const std::string& why) {
  if (lease_.seconds() <= 0) {
    why_ = why;
    return false;
  }
  close(socket_);
  socket_ = -1;
  decoder_ = protocol::FrameDecoder();
  return true;
}

void Control::Reconnect() {
  const absl::StatusOr<int> connected = ConnectTo(lease_.socket());
  if (!connected.ok()) return;
  socket_ = *connected;
  const std::lock_guard<std::mutex> lock(mutex_);
  outbox_.Rewind(hello_);
}

bool Control::Receive() {
  char bytes[16 << 10];
  const ssize_t size = read(socket_, bytes, sizeof(bytes));
  if (size < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return true;
  if (size <= 0) return Disconnected("its socket ended");
  decoder_.Add(bytes, static_cast<size_t>(size));
  for (;;) {
    v1::TrainerCommand command;
    const absl::StatusOr<bool> whole = decoder_.Next(&command);
    if (!whole.ok()) return Disconnected(std::string(whole.status().message()));
    if (!*whole) return true;
    heard_ = clock_.Now();
    if (!Handle(command)) return false;
  }
}

bool Control::Handle(const v1::TrainerCommand& command) {
  switch (command.command_case()) {
    case v1::TrainerCommand::kStop: {
      v1::TrainerEvent event;
      event.mutable_stopping()->set_step(gate_.Ask());
      Enqueue(event);
      break;
    }
    case v1::TrainerCommand::kStopAfter:
      gate_.StopAfter(command.stop_after().step());
      break;
    case v1::TrainerCommand::kCommit:
      mail_->commits.Deliver(command.commit());
      break;
    case v1::TrainerCommand::kAnswer: {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        outbox_.Answered(command.answer().step());
      }
      mail_->answers.Deliver(command.answer());
      break;
    }
    case v1::TrainerCommand::kAcknowledge: {
      const double lease_seconds = command.acknowledge().lease_seconds();
      if (lease_.seconds() > 0 && lease_seconds > 0) lease_.set_seconds(lease_seconds);
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        outbox_.Acknowledge(command.acknowledge().sequence());
      }
      changed_.notify_all();
      break;
    }
    case v1::TrainerCommand::kEnd:
      why_ = command.end().reason();
      return false;
    default: {
      if (command.has_task()) TakeLease(command.task());
      const std::lock_guard<std::mutex> lock(mutex_);
      if (commands_.size() < kMaxWaiting) commands_.push_back(command);
      changed_.notify_all();
    }
  }
  return true;
}

void Control::TakeLease(const v1::TrainerTask& task) {
  if (!task.controlled().has_lease()) return;
  lease_ = task.controlled().lease();
  hello_.set_job(task.controlled().job());
  hello_.set_epoch(task.controlled().epoch());
  hello_.set_rank(task.rank());
  const std::lock_guard<std::mutex> lock(mutex_);
  outbox_.SetLeased();
}

void Control::Flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (;;) {
    const absl::string_view bytes = outbox_.Bytes();
    if (bytes.empty()) break;
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) outbox_.Sent(static_cast<size_t>(sent));
    // A socket that ended is noticed when it is read; what was not sent is of use to nobody then.
    if (sent < 0 && errno != EINTR) break;
  }
  changed_.notify_all();
}

void Control::AgentGone() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return;
  }
  // First: whoever Next releases finds it closed.
  gate_.Close();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
  {
    const std::lock_guard<std::mutex> lock(cancel_mutex_);
    if (cancel_) cancel_(absl::CancelledError(absl::StrCat("the agent is gone: ", why_)));
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(kGraceMs), [this] { return closing_; });
    if (!closing_) _exit(kAgentGoneExit);
  }
  // The last word may still be read, where only the agent's side has ended.
  if (socket_ >= 0) Flush();
}

absl::StatusOr<v1::TrainerCommand> Control::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return gone_ || !commands_.empty(); });
  if (gone_) return Gone();
  v1::TrainerCommand command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

void Control::Enqueue(const v1::TrainerEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const absl::Status status = outbox_.Add(event); !status.ok()) {
    std::fprintf(stderr, "strata-trainer: %s\n", status.ToString().c_str());
  }
}

void Control::Send(const v1::TrainerEvent& event) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return gone_ || !outbox_.full(); });
  }
  Enqueue(event);
  Wake();
}

void Control::Wake() { eventfd_write(wake_, 1); }

void Control::Notice(v1::Notice::Severity severity, const std::string& text) {
  v1::TrainerEvent event;
  event.mutable_notice()->set_severity(severity);
  event.mutable_notice()->set_text(text);
  Send(event);
}

void Control::SetCancel(std::function<void(const absl::Status&)> cancel) {
  const std::lock_guard<std::mutex> cancel_lock(cancel_mutex_);
  cancel_ = std::move(cancel);
  // Either the control thread finds the hook that was just set, or it is seen here to be gone.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (gone_ && cancel_) cancel_(Gone());
}

}  // namespace strata::worker
