// What a step gives beside its state: losses and norms, from each rank's rows to the scalars that
// the host, predicates and updates read. All of it happens where kernels compute, the finish too:
// nobody waits for the host between the last square and the first update.
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
  // Of the program begun last. `scalars`: the block that kernels read; `on_host`: the host's and
  // predicates', which may be the same.
  Results(const Stage& stage, const SetPlans& sets, int scalars, int on_host);

  // This rank's own rows are zeroed where not everything is written.
  void Begin(bool norms);
  // The rank's own rows of losses.
  Operand OwnLosses() const;
  // Σ gradient² of this rank's ranges of the set.
  void AddNorm(int set, const Gradients& gradients);
  // Completes losses and norms on all ranks; derives loss, norm, clip factor, whether to apply, in
  // both blocks.
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
  void SumOver(Group group, Operand place, const std::string& label);
  void GatherOver(Group group, const Operand& own, const Operand& whole, const std::string& label);

  const Stage& stage_;
  const SetPlans& sets_;
  const int scalars_, on_host_;
  int losses_ = -1;
  int norms_ = -1;  // none: the program has no gradients
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_RESULTS_H_
