// Parameters and optimizer state of a stage where they are at home: their slots, and the call that
// updates a set.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program/compose/sources/stage.h"
#include "program/ir/optimizer_state.h"

namespace strata::program {

class State {
 public:
  // Of a range's parts: the weights that kernels read, then the states of StatesOf.
  static constexpr int kParameters = 0;
  static constexpr int kStates = 1;

  // Adds the persistent slots, and the templates of updates. No update: no optimizer state.
  State(const Stage& stage, const UpdateEmitter& update);

  // `set`: position in StagePlan::sets; `range`: in SetPlan::ranges.
  int parts(int set) const { return kStates + static_cast<int>(states(set).size()); }
  const std::vector<StateSpec>& states(int set) const { return sets_[set].states; }
  // For people.
  std::string Title(int set, int part) const;
  int slot(int set) const { return sets_[set].parameters; }
  // By state.
  const std::vector<int>& slots(int set, int range) const { return sets_[set].ranges[range].slots; }
  // Whether the update reads version s of the part.
  bool IsRead(int set, int part) const;
  // All parameters that this rank holds,
  Operand Parameters(int set) const;
  // and what of a part an update of the range is of.
  Operand Held(int set, int range, int part, int version) const;
  int update_template(int set, int range) const { return sets_[set].ranges[range].update; }
  // That an update's range of the flat layout follows from the rank's place in the shard group,
  // also where the part is a slot of its own and nothing moves.
  Operand InRange(int set, Operand part) const;

  // Calls the range's update. `where(part, version)`: version 0 is read, version 1 written.
  void CallUpdate(int set, int range, const Operand& gradient, const Operand& scalars,
                  const std::function<Operand(int part, int version)>& where) const;

 private:
  struct Range {
    std::vector<int> slots;  // by state
    int update = -1;         // template
  };
  struct Set {
    std::vector<StateSpec> states;
    int parameters = -1;  // slot
    std::vector<Range> ranges;
  };
  void AddRange(int index, const StateRange& range, const UpdateEmitter& update);
  int AddSlot(const std::string& name, Home home, SlotClass klass, int64_t bytes, bool versioned,
              std::string content);

  const Stage& stage_;
  std::vector<Set> sets_;  // of the stage
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_
