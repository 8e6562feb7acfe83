// What an agent holds of a process: the other end of its socket, and what the system tells of it.
#ifndef STRATA_SIMULATION_SIM_TRAINER_H_
#define STRATA_SIMULATION_SIM_TRAINER_H_

#include <memory>
#include <optional>
#include <string>

#include "simulation/sim_process.h"
#include "worker/agent/logic/trainer.h"

namespace strata::simulation {

class SimTrainer final : public worker::Trainer {
 public:
  // `child`: started by this agent, with a socket; else found again, without one.
  SimTrainer(Cluster& cluster, std::shared_ptr<SimProcess> process, bool child);
  ~SimTrainer() override;

  int64_t pid() const override { return process_->identity().pid; }
  uint64_t start_time() const override { return 1; }
  bool connected() const override { return conversation_ != nullptr; }
  void Send(const v1::TrainerCommand& command) override;
  void Detach() override;
  void Hang() override;
  void Kill() override;
  bool killed() const override { return killed_; }
  void LetGo() override { reaped_ = true; }
  bool reaped() const override { return reaped_; }
  std::string DescribeEnd() const override;
  bool died_of_signal() const override { return process_->by_signal(); }
  std::optional<v1::Ended> Outcome() override;
  bool IsStopped() const override { return process_->stopped(); }
  bool IsInUninterruptibleSleep() const override { return false; }
  const worker::ProgressView* progress() override;
  bool progress_unknown() const override;
  std::string Stack() const override { return ""; }

  // It has come back on this socket.
  void Attach(std::shared_ptr<Conversation> conversation);
  void Hear(const v1::TrainerEvent& event);
  void Gone();

 private:
  Cluster& cluster_;
  const std::shared_ptr<SimProcess> process_;
  const bool child_;
  std::shared_ptr<Conversation> conversation_;
  bool killed_ = false, reaped_ = false;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_SIM_TRAINER_H_
