// Where trainers of an earlier agent come back, and where the agent is told to stop: the agent's
// socket, and those that have connected and not yet said what they want.
#ifndef STRATA_WORKER_AGENT_CLUSTER_DOORWAY_H_
#define STRATA_WORKER_AGENT_CLUSTER_DOORWAY_H_

#include <poll.h>
#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/machine/channel.h"
#include "worker/agent/machine/descriptor.h"

namespace strata::worker {

// Used by one thread.
class Doorway {
 public:
  static constexpr size_t kMostWaiting = 64;  // further ones wait in the socket's queue
  static constexpr double kHelloSeconds = 5;  // for the first word

  // Takes the connection if it knows the trainer; `pid` is what the system says of it. False: the
  // trainer is told to end.
  using OnHello = std::function<bool(const v1::TrainerHello& hello, pid_t pid, Descriptor& socket,
                                     FrameReceiver& receiver)>;

  // StopAgent: the answer goes to the socket.
  using OnStop = std::function<void(Descriptor socket)>;

  // Whom it hears. Of other users than this process's trainers alone are, who cannot stop an agent.
  enum class Guests { kOwnUser, kAllUsers };

  // Listens at `path`. `clock` is borrowed.
  static absl::StatusOr<std::unique_ptr<Doorway>> Open(const std::string& path, Guests guests,
                                                       OnHello on_hello, OnStop on_stop,
                                                       const common::Clock* clock);

  // For a poll loop: adds what to wait for; then looks at what poll found at the same place.
  void AddTo(std::vector<pollfd>& waiting);
  void Handle(const pollfd* found);
  int polled() const { return polled_; }

 private:
  struct Guest {
    Descriptor socket;
    FrameReceiver receiver;
    pid_t pid = -1;
    uid_t user = 0;
    double came_at = 0;  // clock time
    bool gone = false;
  };
  Doorway(Descriptor listener, Guests guests, OnHello on_hello, OnStop on_stop,
          const common::Clock* clock);
  void Accept();
  void Hear(Guest& guest);

  const Descriptor listener_;
  const Guests who_;
  const OnHello on_hello_;
  const OnStop on_stop_;
  const common::Clock* const clock_;
  std::vector<Guest> guests_;
  int polled_ = 0;  // by the last AddTo
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_DOORWAY_H_
