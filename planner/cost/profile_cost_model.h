// What things cost on a machine that was measured (strata calibrate).
#ifndef STRATA_PLANNER_COST_PROFILE_COST_MODEL_H_
#define STRATA_PLANNER_COST_PROFILE_COST_MODEL_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "absl/status/statusor.h"
#include "planner/cost/measured_times.h"
#include "program/readers/timeline.h"
#include "proto/strata/v1/profile.pb.h"

namespace strata::planner {

// Whose steps are to be predicted.
struct ProfiledRanks {
  std::string host;
  std::string isa;
  int64_t ranks = 1;  // all on this host
  int64_t threads = 1;
};

// What the profile has of such ranks; borrowed from it. FailedPrecondition, saying what to do: it
// is of another host or instruction set, or was measured with other numbers of ranks or threads.
absl::StatusOr<const v1::RankProfile*> FindRanks(const v1::Profile& profile,
                                                 const ProfiledRanks& wanted);

class ProfileCostModel final : public program::CostModel {
 public:
  // `disks`: the rank's part of them; null: it keeps nothing on SSD, or they were not measured.
  explicit ProfileCostModel(const v1::RankProfile& measured, const v1::DiskRate* disks = nullptr);

  // Of the kind's nearest shapes, in the same numbers where these were measured; of a kind that was
  // not measured, as others with as much to multiply or to move; 0 if nothing was measured. The
  // engine's own time beside it included.
  double OpSeconds(const program::Op& op) const override;
  // Measured between two ranks: a member of n exchanges with n - 1 what one of two exchanges with
  // one, and what passes from member to member takes its turns.
  double CollectiveSeconds(const program::Communication& communication,
                           program::GroupSpan group) const override;
  double MessageSeconds(const program::Communication& communication,
                        program::GroupSpan group) const override;
  // With SSD at the disks' rates, without as a copy in memory.
  double TransferSeconds(program::Tier from, program::Tier to, int64_t bytes) const override;
  double BothWays(program::Tier from, program::Tier to) const override;
  double UpdateStretch() const override { return 2; }  // all on the same cores
  program::Interference Beside(const program::Communication& communication) const override;
  double LatenessSeconds(double apart) const override;

 private:
  // Of a kind, told apart by what cannot be interpolated: a product's transpositions, and the type
  // of numbers. kAny: all of them.
  struct Table {
    int kind = 0, transposed = kAny, type = kAny;
    bool operator<(const Table& other) const {
      return std::tie(kind, transposed, type) < std::tie(other.kind, other.transposed, other.type);
    }
  };
  static constexpr int kAny = -1;
  struct Query {
    Table table;
    // The table and those that answer for it where nothing of it was measured.
    std::array<Table, 3> tables() const;
    TimesByShape::Shape shape;
    double work = 0, flops = 0, bytes = 0;
  };
  static Query QueryOf(const program::Op& op, double flops, double bytes);
  double CommunicationSeconds(const std::string& name, double bytes) const;

  const double action_seconds_;
  const double drift_;
  std::map<Table, TimesByShape> tables_;
  TimesByShape with_flops_, without_flops_;
  std::map<std::string, TimesBySize> communications_;
  TimesBySize copies_;
  const std::optional<v1::DiskRate> disks_;
  std::map<std::string, std::map<double, program::Interference>>
      interference_;  // by op, log2 bytes
};

}  // namespace strata::planner

#endif  // STRATA_PLANNER_COST_PROFILE_COST_MODEL_H_
