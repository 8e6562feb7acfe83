// The machine of an agent of a cluster: its folder, its trainers' processes, its way to the
// controller.
#ifndef STRATA_WORKER_AGENT_MACHINE_HOST_H_
#define STRATA_WORKER_AGENT_MACHINE_HOST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "worker/agent/agent_folder.h"
#include "worker/agent/controller_link.h"
#include "worker/agent/logic/agent_host.h"
#include "worker/agent/trainer_poll.h"

namespace strata::worker {

// Used by one thread. All is borrowed, and outlives it and what it gives.
class MachineHost final : public AgentHost {
 public:
  MachineHost(AgentFolder* folder, TrainerPoll* trainers) : folder_(folder), trainers_(trainers) {}
  void SetLink(ControllerLink* link) { link_ = link; }

  std::unique_ptr<EpochHost> OpenEpoch(const v1::PrepareEpoch& prepare) override;
  absl::Status SetMembership(const v1::AgentMembership& membership) override {
    return folder_->SetMembership(membership);
  }
  void Send(uint64_t session, const v1::AgentMessage& message) override {
    link_->Send(session, message);
  }
  void EndSession(uint64_t session) override { link_->End(session); }
  void Log(const std::string& text) override;

 private:
  AgentFolder* const folder_;
  TrainerPoll* const trainers_;
  ControllerLink* link_ = nullptr;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_MACHINE_HOST_H_
