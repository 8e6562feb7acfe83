#include "worker/trainer/control.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/shared/frame.h"

namespace strata::worker {
namespace {

// A task, a start: more never wait.
constexpr size_t kMaxWaiting = 8;

absl::Status Gone() { return absl::CancelledError("the agent is gone"); }

}  // namespace

Control::Control(int socket, std::function<void(const v1::CommitCheckpoint&)> on_commit)
    : socket_(socket), on_commit_(std::move(on_commit)), reader_([this] { Read(); }) {}

Control::~Control() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  shutdown(socket_, SHUT_RD);
  reader_.join();
  close(socket_);
}

void Control::Read() {
  FrameDecoder decoder;
  char bytes[16 << 10];
  for (;;) {
    const ssize_t size = read(socket_, bytes, sizeof(bytes));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return AgentGone("its socket ended");
    decoder.Add(bytes, static_cast<size_t>(size));
    for (;;) {
      v1::TrainerCommand command;
      const absl::StatusOr<bool> whole = decoder.Next(&command);
      if (!whole.ok()) return AgentGone(std::string(whole.status().message()));
      if (!*whole) break;
      Handle(command);
    }
  }
}

void Control::Handle(const v1::TrainerCommand& command) {
  switch (command.command_case()) {
    case v1::TrainerCommand::kStop: {
      v1::TrainerEvent event;
      event.mutable_stopping()->set_step(gate_.Ask());
      return Send(event);
    }
    case v1::TrainerCommand::kStopAfter:
      return gate_.StopAfter(command.stop_after().step());
    case v1::TrainerCommand::kCommit:
      return on_commit_(command.commit());
    default: {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (commands_.size() < kMaxWaiting) commands_.push_back(command);
      changed_.notify_all();
    }
  }
}

void Control::AgentGone(const std::string& why) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closing_) return;
  }
  gate_.Close();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gone_ = true;
  }
  changed_.notify_all();
  {
    const std::lock_guard<std::mutex> lock(cancel_mutex_);
    if (cancel_) cancel_(absl::CancelledError(absl::StrCat("the agent is gone: ", why)));
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, std::chrono::milliseconds(kGraceMs), [this] { return closing_; });
  if (!closing_) _exit(kAgentGoneExit);
}

absl::StatusOr<v1::TrainerCommand> Control::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return gone_ || !commands_.empty(); });
  if (gone_) return Gone();
  v1::TrainerCommand command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

void Control::Send(const v1::TrainerEvent& event) {
  std::string frame;
  if (const absl::Status status = AppendFrame(event, &frame); !status.ok()) {
    std::fprintf(stderr, "strata-trainer: %s\n", status.ToString().c_str());
    return;
  }
  const std::lock_guard<std::mutex> lock(send_mutex_);
  size_t done = 0;
  while (done < frame.size()) {
    const ssize_t sent = send(socket_, frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return;
    if (sent > 0) done += static_cast<size_t>(sent);
  }
}

void Control::Notice(v1::Notice::Severity severity, const std::string& text) {
  v1::TrainerEvent event;
  event.mutable_notice()->set_severity(severity);
  event.mutable_notice()->set_text(text);
  Send(event);
}

void Control::SetCancel(std::function<void(const absl::Status&)> cancel) {
  const std::lock_guard<std::mutex> cancel_lock(cancel_mutex_);
  cancel_ = std::move(cancel);
  // Either the reading thread finds the hook that was just set, or it is seen here to be gone.
  const std::lock_guard<std::mutex> lock(mutex_);
  if (gone_ && cancel_) cancel_(Gone());
}

}  // namespace strata::worker
