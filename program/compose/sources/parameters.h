// Parameters and optimizer state of a stage: where they live, and how they come to be present for a
// use. What is whole on every rank is bound where it lives; what is cut over the shard group is
// gathered into transient slots, as far ahead as residency allows, once per stay.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_PARAMETERS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_PARAMETERS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "program/compose/residency.h"
#include "program/compose/sources/stage.h"

namespace strata::program {

class Parameters {
 public:
  // Adds the persistent slots.
  Parameters(const Stage& stage, const UpdateEmitter& update);

  // Of the program begun last; `uses` in the order of Before. The walk must outlive the program.
  void Open(std::vector<Use> uses);
  // Begins the fetches that come before this use.
  void Before(int use);
  // `set`: position in StagePlan::sets.
  Operand Bind(int use, int set, int64_t bytes) const;

  // Calls the set's update on its gradient; then, where ranks updated parts of parameters that are
  // whole, gathers them.
  void Update(int set, const Operand& gradient, const Operand& scalars);

  int slot(int set) const { return slots_[set].parameters; }
  const std::array<int, 2>& moments(int set) const { return slots_[set].moments; }

 private:
  struct Slots {
    int parameters = -1;
    std::array<int, 2> moments{-1, -1};
    int update_template = -1;
  };
  void Gather(const Fetch& fetch);

  const Stage& stage_;
  std::vector<Slots> slots_;  // per set of the stage
  std::vector<Use> uses_;
  std::vector<Need> needs_;
  std::vector<std::vector<int>> needs_of_use_;
  ResidencyPlan residency_;
  size_t next_fetch_ = 0;
  std::vector<int> places_;  // per fetch: its slot
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_PARAMETERS_H_
