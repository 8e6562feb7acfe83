// The timeline: a step predicted by walking the programs of all ranks with costs.
#ifndef STRATA_PROGRAM_READERS_TIMELINE_H_
#define STRATA_PROGRAM_READERS_TIMELINE_H_

#include <array>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "program/readers/interference.h"
#include "program/readers/machine.h"

namespace strata::program {

// What things cost on some hardware.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual double OpSeconds(const Op& op) const = 0;
  // Of an op whose operands live on the host: the host computes it.
  virtual double HostOpSeconds(const Op& op) const { return OpSeconds(op); }
  virtual double CollectiveSeconds(const Communication& communication, GroupSpan group) const = 0;
  virtual double MessageSeconds(const Communication& communication, GroupSpan group) const = 0;
  virtual double TransferSeconds(Tier from, Tier to, int64_t bytes) const = 0;
  // What communication and the same rank's compute cost each other; the above are without it.
  // Nothing, where communication has processors of its own.
  virtual Interference Beside(const Communication&) const { return {}; }
  // How long a member of a collective waits, on average, for others that compute as long as it
  // does: after so many seconds of compute since compute last waited for communication.
  virtual double LatenessSeconds(double /*apart*/) const { return 0; }
  // How many times longer a transfer takes while the rank moves bytes the other way between the
  // same tiers, at least 1. As it is, where the two ways share nothing.
  virtual double BothWays(Tier /*from*/, Tier /*to*/) const { return 1; }
  // How many times longer kernels and updates on the host take while both are under way; 1 where
  // kernels have a device of their own.
  virtual double UpdateStretch() const { return 1; }
};

// Rates alone: seconds = latency + work / rate. For tests, and until a machine has been measured.
// Collectives as collectives/message_communicator.h makes them: pieces go to all others at once, so
// an exchange waits for one latency whatever the group's size, an all-reduce for two.
struct Rates {
  double flops_per_second = 1e11;
  double memory_bytes_per_second = 1e10;
  double link_bytes_per_second = 1e9;
  double link_latency_seconds = 1e-5;
  double transfer_bytes_per_second = 1e9;
};
class RateCostModel final : public CostModel {
 public:
  explicit RateCostModel(const Rates& rates) : rates_(rates) {}
  // The larger of arithmetic and memory traffic (roofline; Williams et al., CACM 2009). Traffic is
  // what ops/ says; an op with attributes that it cannot have, as tests make them up, moves every
  // operand whole.
  double OpSeconds(const Op& op) const override;
  // Rings: all-gather and reduce-scatter (n-1) parts, all-reduce 2(n-1)/n of the whole, broadcast
  // the whole.
  double CollectiveSeconds(const Communication& communication, GroupSpan group) const override;
  double MessageSeconds(const Communication& communication, GroupSpan group) const override;
  double TransferSeconds(Tier from, Tier to, int64_t bytes) const override;

 private:
  const Rates rates_;
};

struct RankTimeline {
  double step_seconds = 0;  // of a step in the steady state: the distance between two steps' ends
  double compute_seconds = 0;  // the compute stream busy, per step
  double exposed_seconds =
      0;  // the compute stream idle, per step: communication and transfers that nothing hides
  // Per step: busy on the compute stream; compute stood and waited for an action of this purpose;
  // busy on all other streams. As the engine tells them of a step that was run.
  std::array<double, kPurposeCount> compute{}, exposed{}, background{};

  // Compute stood and waited for bytes from other tiers.
  double stall_seconds() const {
    return exposed[static_cast<int>(Purpose::kFetch)] + exposed[static_cast<int>(Purpose::kStash)];
  }
};

struct Timeline {
  MachineResult walked;
  std::vector<RankTimeline> ranks;
  double step_seconds = 0;  // of the slowest rank

  // One row per stream of a rank, time to the right, each instruction's purpose by its first
  // letter: for people.
  std::string Draw(int rank, int columns) const;
};

absl::StatusOr<Timeline> PredictTimeline(const std::vector<const ProgramSet*>& stages,
                                         const std::string& program, const Mesh& mesh,
                                         const CostModel& costs);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_TIMELINE_H_
