// The agent's session with its controller: one stream at a time, made anew for ever.
#ifndef STRATA_WORKER_AGENT_CLUSTER_CONTROLLER_LINK_H_
#define STRATA_WORKER_AGENT_CLUSTER_CONTROLLER_LINK_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "proto/strata/v1/agent.pb.h"
#include "security/tls_files.h"

namespace strata::worker {

// A stream stands; what is sent with this number goes over it, and over no other.
struct LinkUp {
  uint64_t session = 0;
};
struct LinkDown {
  uint64_t session = 0;  // 0: none could be made
  std::string reason;
};
struct LinkMessage {
  uint64_t session = 0;
  v1::ControllerMessage message;
};
using LinkEvent = std::variant<LinkUp, LinkDown, LinkMessage>;

// Threads: a session's reading and writing happen in threads of its own; the rest is called by one
// thread, which waits for events in a poll loop.
class ControllerLink {
 public:
  struct Options {
    std::string address;  // HOST:PORT or unix:PATH
    // Read anew for each session, so that they may be renewed meanwhile. Not for Unix sockets.
    security::TlsFiles tls;
    // Between two tries: grows from the first to the second, with jitter (Marc Brooker,
    // "Exponential backoff and jitter", AWS 2015).
    double first_pause_seconds = 0.1;
    double longest_pause_seconds = 3;
    uint64_t seed = 0;  // of the jitter
  };
  // What waits to be sent; a controller that does not read it loses the session.
  static constexpr size_t kMostWaiting = 8192;
  static constexpr int kLargestMessageBytes = 4 << 20;  // larger ones come in parts

  explicit ControllerLink(const Options& options);
  ~ControllerLink();
  ControllerLink(const ControllerLink&) = delete;
  ControllerLink& operator=(const ControllerLink&) = delete;

  // Readable while there are events.
  int descriptor() const;
  std::optional<LinkEvent> Next();

  // Dropped when `session` is not the one that stands.
  void Send(uint64_t session, const v1::AgentMessage& message);
  // Ends a session; a new one is made after a pause.
  void End(uint64_t session);
  // The very end: waits until the controller has read all that was sent, at most so long.
  void Finish(double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_CONTROLLER_LINK_H_
