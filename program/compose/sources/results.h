// What a step gives beside its state: losses and norms, from each rank's rows to the scalars that
// the host, predicates and updates read. Squares are summed and ranks meet where kernels compute;
// the finish runs on the host where that is another tier.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_RESULTS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_RESULTS_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "program/compose/plan_sets.h"
#include "program/compose/sources/gradients.h"
#include "program/compose/sources/stage.h"

namespace strata::program {

class Results {
 public:
  // Of the program begun last. `scalars`: the host's slot; `on_host`: of HostBytes, where the
  // finish reads losses and norms that are made on a device.
  Results(const Stage& stage, const SetPlans& sets, int scalars, const Operand& on_host);
  static int64_t HostBytes(const Stage& stage, const SetPlans& sets) {
    return (1 + sets.columns) * stage.leaves.rows() * 8;
  }

  // This rank's own rows are zeroed where not everything is written.
  void Begin(bool norms);
  // The rank's own rows of losses.
  Operand OwnLosses() const;
  // Σ gradient² of this rank's ranges of the set.
  void AddNorm(int set, const Gradients& gradients);
  // Completes losses and norms on all ranks; derives loss, norm, clip factor, whether to apply.
  void Finish();

 private:
  int64_t columns() const { return sets_.columns; }
  int64_t cut_columns() const { return sets_.cut_columns; }
  int64_t column_bytes() const { return stage_.leaves.rows() * 8; }
  // Rows of the rank.
  int64_t norm_rows() const {
    return stage_.leaves.rows() / stage_.plan.groups.of(stage_.norm_group());
  }
  Partial StagePartial() const;
  Partial LossPartial() const;
  Partial NormPartial(bool cut) const;
  // Of the rank's rows the columns [first, end); all of those that are cut by tensor, or not.
  Operand OwnNorms(int64_t first, int64_t end) const;
  Operand OwnNormsOf(bool cut) const;
  Operand CompleteNorms();
  // `offset`: of `on_host_`.
  Operand ToHost(const std::string& what, const Operand& from, int64_t offset);
  void SumOver(Group group, Operand place, const std::string& label);
  void GatherOver(Group group, const Operand& own, const Operand& whole, const std::string& label);

  const Stage& stage_;
  const SetPlans& sets_;
  const int scalars_;
  const Operand on_host_;
  int losses_ = -1;
  int norms_ = -1;  // none: the program has no gradients
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_RESULTS_H_
