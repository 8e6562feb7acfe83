// How a stage's parameters come to be present for a use. What is at home on the device, whole on
// every rank, is bound where it lives. The rest comes into transient slots, as far ahead as
// residency allows, once per stay: fetched from the host, or from SSD through a slab; gathered from
// the ranks that each hold a part. Pages of unified memory come into rooms, and go back at the end
// of each stay.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_PARAMETERS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/compose/residency.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"
#include "program/compose/sources/transfers.h"

namespace strata::program {

class Parameters {
 public:
  Parameters(const Stage& stage, const State& state, Transfers& transfers)
      : stage_(stage), state_(state), transfers_(transfers) {}

  // Of the program begun last; `uses` in the order of Before. The walk must outlive the program.
  void Open(std::vector<Use> uses);
  // Begins the fetches that come before this use.
  void Before(int use);
  // Pages of unified memory that no later use needs where they are go back.
  void After(int use);
  // `set`: position in StagePlan::sets.
  Operand Bind(int use, int set, int64_t bytes) const;

 private:
  bool IsPresent(const SetPlan& plan) const {
    return plan.parameter_parts == 1 && plan.parameters == Home::kDevice;
  }
  std::string What(const Need& need) const;
  // Returns the slot.
  int Bring(const Need& need);
  // Bytes that may be present at once.
  int64_t Budget() const;
  // What is brought for a use of the largest layer: of those between the first and the last, if
  // there are any, and of these two.
  struct LayerBytes {
    int64_t between = 0, first_or_last = 0;
  };
  LayerBytes MostBytes() const;
  int64_t AllBytes() const;

  const Stage& stage_;
  const State& state_;
  Transfers& transfers_;
  std::vector<Use> uses_;
  std::vector<Need> needs_;
  std::vector<std::vector<int>> needs_of_use_;
  ResidencyPlan residency_;
  size_t next_fetch_ = 0;
  std::vector<int> places_;    // per fetch: its slot
  std::vector<int> last_use_;  // likewise
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_PARAMETERS_H_
