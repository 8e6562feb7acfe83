// The agents' sessions, as the reactor sees them: where the logic's messages go.
#ifndef STRATA_CONTROLLER_SERVICE_REACTOR_SESSION_TABLE_H_
#define STRATA_CONTROLLER_SERVICE_REACTOR_SESSION_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "controller/service/reactor/reactor.h"
#include "proto/strata/v1/agent.pb.h"

namespace strata::controller {

// The sending half of a session. Calls come from the reactor's thread and never wait.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  // Too many unsent messages end the session. After a Dismiss it ends by itself.
  virtual void Send(const std::shared_ptr<const v1::ControllerMessage>& message) = 0;
  virtual void End(const absl::Status& status) = 0;
  // Whether the agent is still believed to be who it is; else why not.
  virtual absl::Status CheckBelieved(const Core& core) const = 0;
  // Unix time in seconds from which on it is not.
  virtual double until() const = 0;
};

// Hears of what agents say, after the logic has. On the reactor's thread.
class AgentObserver {
 public:
  virtual ~AgentObserver() = default;
  // `node`: nodes/NAME.
  virtual void OnAgentMessage(const std::string& node, const v1::AgentMessage& message) = 0;
};

// Lives on the reactor's thread. Ends sessions whose certificates are over, or not believed any
// more.
class SessionTable final : public Reactor::Listener {
 public:
  static constexpr size_t kMostSessions = 20000;

  // ResourceExhausted: there are too many.
  absl::Status Add(uint64_t session, std::shared_ptr<AgentLink> link);
  bool Has(uint64_t session) const { return links_.count(session) > 0; }
  void Remove(uint64_t session) { links_.erase(session); }

  void OnEffects(const Core& core, const Effects& effects) override;
  void OnTick(const Core& core) override;
  void OnLoad(const Core& core) override;
  void OnStop() override;

 private:
  void EndAll(const absl::Status& status);

  std::map<uint64_t, std::shared_ptr<AgentLink>> links_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REACTOR_SESSION_TABLE_H_
