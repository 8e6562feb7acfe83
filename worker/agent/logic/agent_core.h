// What an agent of a cluster decides: whose controller it hears, which epochs it holds, what
// becomes of them. No process, file, socket, thread or clock of its own: its machine is AgentHost.
#ifndef STRATA_WORKER_AGENT_LOGIC_AGENT_CORE_H_
#define STRATA_WORKER_AGENT_LOGIC_AGENT_CORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "proto/strata/v1/agent.pb.h"
#include "proto/strata/v1/agent_files.pb.h"
#include "protocol/versions.h"
#include "worker/agent/logic/agent_host.h"
#include "worker/agent/logic/epoch_fence.h"
#include "worker/agent/logic/held_epoch.h"
#include "worker/agent/logic/membership.h"

namespace strata::worker {

// Used by one thread. Inputs are On…; after each, and by the deadline, Advance.
class AgentCore {
 public:
  struct Options {
    std::string node;
    std::string device = "cpu";  // kind of its devices
    int devices = 1;
    int threads_per_device = 1;
    std::map<std::string, std::string> locality;  // level -> value
    uint64_t incarnation = 0;                     // drawn anew by each agent process
    std::string build;                            // of the trainer; empty: not known
    int64_t host_memory_bytes = 0;                // that ranks may use together; 0: not known
    std::string boot_id;                          // of the machine
    std::string trainer_socket;                   // path at which trainers find an agent again
    std::string data_devices;                     // TrainerTask.data_devices of its ranks
    std::function<std::optional<v1::Profile>()> profile;  // see EpochEnvironment
    v1::ProtocolRange protocol = protocol::OwnRange();    // that it speaks with its controller
    bool rejoin = false;  // may go over to another cluster while it holds nothing
  };

  // `kept`: of this agent's earlier life. `host` and `clock` are borrowed.
  AgentCore(const Options& options, const v1::AgentMembership& kept, AgentHost* host,
            const common::Clock* clock);

  // First: an epoch of an earlier agent.
  void Adopt(const v1::HeldEpochRecord& record);

  // A session with the controller stands; it has ended (0: none could be made); it says something.
  void OnLinkUp(uint64_t session);
  void OnLinkDown(uint64_t session, const std::string& reason);
  void OnMessage(uint64_t session, const v1::ControllerMessage& message);
  // A trainer has come back, on a socket of its own: whether it is one of these. If so it is given
  // the socket, and OnAttached follows before anything is read from it.
  bool Expects(const v1::TrainerHello& hello, int64_t pid);
  void OnAttached(const v1::TrainerHello& hello, int64_t pid);
  // Of accelerators: all of them, as they are now; before the first session, and when they change.
  // Ranks on one that has become unhealthy are ended.
  void OnDevices(std::vector<v1::DeviceState> devices);
  // The node is to be emptied within so long.
  void OnDrain(double seconds);

  void Advance();
  double deadline() const;  // clock time

  // The controller wants another agent in its place.
  bool dismissed() const { return dismissed_; }
  // Told to drain, and it holds nothing any more; or the time for that is over.
  bool drained() const;
  bool draining() const { return drain_by_ >= 0; }

  // The end. The next agent of this node will find the trainers.
  void SayHandingOver();
  void LetGo();
  // Or: all trainers are ended, and no new epochs taken. Over when all have. Returns the number of
  // epochs that it ends.
  int EndAll();
  bool AllEnded() const;
  // No later agent needs to find what EndAll ended. Epochs that had ended before may not have been
  // told yet: the next agent does that.
  void ForgetEnded();

 private:
  void Tick(double now);
  void SayHeartbeat(bool with_devices);
  const v1::DeviceState* FindUnhealthy(int device) const;
  // Epochs that are over make room; those that wait for it begin.
  void Settle(double now);
  void EndOrphans(double now);
  HeldEpoch* Find(const v1::JobEpoch& epoch) const;
  HeldEpoch* FindTrainers(const v1::TrainerHello& hello, int64_t pid) const;
  HeldEpoch* FindOrDeny(const v1::JobEpoch& epoch);
  void Say(v1::AgentMessage message);
  void SayLeaving();

  absl::Status TakeWelcome(const v1::ControllerMessage& message);
  void Obey(const v1::ControllerMessage& message);
  void OnWelcome(const v1::Welcome& welcome);
  void SetTiming(const v1::TimingPolicy& timing);
  void OnPrepare(const v1::PrepareEpoch& prepare);
  absl::Status Check(const v1::PrepareEpoch& prepare) const;

  const Options options_;
  AgentHost* const host_;
  const common::Clock* const clock_;
  EpochEnvironment environment_;
  std::vector<std::unique_ptr<HeldEpoch>> epochs_;
  uint64_t session_ = 0;
  std::vector<v1::DeviceState> devices_;
  std::vector<v1::JobEpoch> listed_;  // held, by Register of this session
  EpochFence fence_;
  Membership membership_;
  double heartbeat_seconds_ = 1;
  double orphan_seconds_ = 0;                  // 0: never
  double next_tick_ = 0, next_heartbeat_ = 0;  // clock times
  double away_since_;                          // clock time
  std::string said_away_;  // why it is without a controller, as it was said last
  double drain_by_ = -1;   // clock time; negative: not told to
  bool dismissed_ = false;
  bool ending_ = false;             // it takes no new epochs
  std::vector<v1::JobEpoch> last_;  // what EndAll ended
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_AGENT_CORE_H_
