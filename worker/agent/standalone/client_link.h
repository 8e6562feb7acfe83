// The agent's side towards the client that started it in standalone mode: the request on stdin,
// events on stdout, and the signals that the client forwards.
#ifndef STRATA_WORKER_AGENT_STANDALONE_CLIENT_LINK_H_
#define STRATA_WORKER_AGENT_STANDALONE_CLIENT_LINK_H_

#include <poll.h>
#include <sys/types.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/strata/v1/standalone.pb.h"
#include "worker/agent/machine/channel.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {

// Used by one thread.
class ClientLink {
 public:
  // Blocks SIGINT and SIGTERM for the calling thread and those it starts later, and counts them
  // here instead; ignores SIGPIPE. `input` and `output` stay the caller's.
  static absl::StatusOr<std::unique_ptr<ClientLink>> Open(int input, int output);
  ClientLink(const ClientLink&) = delete;
  ClientLink& operator=(const ClientLink&) = delete;

  // Waits for the request. Cancelled: the client went away or interrupted first.
  absl::StatusOr<v1::StandaloneRequest> ReadRequest();

  void Send(const v1::StandaloneEvent& event);
  void Notice(v1::Notice::Severity severity, const std::string& text);
  // Sends the last event and waits until the client has it all, or is gone.
  void Finish(const v1::Finished& finished);

  // For a poll loop: adds what to wait for; then, with what poll found at the same place, looks at
  // it all.
  void AddTo(std::vector<pollfd>& waiting) const;
  void Handle(const pollfd* found);
  static constexpr int kPolled = 3;

  bool gone() const { return gone_; }             // the client has died or closed a pipe
  int interrupts() const { return interrupts_; }  // so far
  bool congested() const { return sender_.congested(); }

 private:
  ClientLink(int input, int output, Descriptor signals);
  // One round of waiting without trainers.
  void Wait();

  const int input_;
  const int output_;
  const pid_t parent_;
  Descriptor signals_;
  FrameReceiver receiver_;
  FrameSender sender_;
  bool gone_ = false;
  int interrupts_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_STANDALONE_CLIENT_LINK_H_
