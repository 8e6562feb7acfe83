// The machine of an agent of a cluster: its folder, its trainers' processes, its way to the
// controller.
#ifndef STRATA_WORKER_AGENT_CLUSTER_MACHINE_HOST_H_
#define STRATA_WORKER_AGENT_CLUSTER_MACHINE_HOST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/agent/cluster/controller_link.h"
#include "worker/agent/logic/agent_host.h"
#include "worker/agent/machine/agent_folder.h"
#include "worker/agent/machine/job_user.h"
#include "worker/agent/trainers/trainer_poll.h"

namespace strata::worker {

// Used by one thread. All is borrowed, and outlives it and what it gives.
class MachineHost final : public AgentHost {
 public:
  // As whom jobs run.
  struct Users {
    RunAs mode = RunAs::kAuto;
    Powers powers;
    std::vector<std::string> unit_properties;  // see LaunchCommand
  };

  MachineHost(AgentFolder* folder, TrainerPoll* trainers, Users users)
      : folder_(folder), trainers_(trainers), users_(std::move(users)) {}
  void SetLink(ControllerLink* link) { link_ = link; }
  // UUIDs of its GPUs, by device: a rank sees that of its own device and no other.
  void SetGpus(std::vector<std::string> uuids) { gpus_ = std::move(uuids); }

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
  const Users users_;
  std::vector<std::string> gpus_;
  ControllerLink* link_ = nullptr;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_CLUSTER_MACHINE_HOST_H_
