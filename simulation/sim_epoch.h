// What an agent asks of its machine for one start of a job's ranks.
#ifndef STRATA_SIMULATION_SIM_EPOCH_H_
#define STRATA_SIMULATION_SIM_EPOCH_H_

#include <memory>
#include <optional>
#include <vector>

#include "controller/logic/job_entry.h"
#include "worker/agent/logic/agent_host.h"

namespace strata::simulation {

class Cluster;
class SimNode;

class SimEpoch final : public worker::EpochHost {
 public:
  SimEpoch(Cluster& cluster, SimNode& node, const v1::PrepareEpoch& prepare)
      : cluster_(cluster), node_(node), prepare_(prepare) {}

  std::optional<absl::Status> Open() override;
  void Unlock() override {}
  absl::StatusOr<std::unique_ptr<worker::Trainer>> StartPlanner() override;
  absl::StatusOr<std::vector<std::unique_ptr<worker::Trainer>>> StartRanks() override;
  std::unique_ptr<worker::Trainer> FindAgain(const v1::HeldEpochRecord::Trainer& trainer) override;
  worker::MachineRoom Room() override;
  absl::Status SaveRecord(const v1::HeldEpochRecord& record) override;
  void RemoveRecord(const v1::HeldEpochRecord& record) override;
  std::optional<absl::StatusOr<OpenedRecords>> OpenRecords(int64_t start_step) override;
  std::vector<v1::LogLine> ReadLogs(size_t, bool) override { return {}; }

 private:
  controller::EpochKey key() const { return controller::ToKey(prepare_.epoch()); }
  bool Answers(bool late, double& asked_at) const;

  Cluster& cluster_;
  SimNode& node_;
  const v1::PrepareEpoch prepare_;
  double opening_at_ = -1, opening_records_at_ = -1;  // clock time; negative: not asked
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_SIM_EPOCH_H_
