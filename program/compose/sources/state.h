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
  // Of a set's parts: the weights that kernels read, then the states of StatesOf.
  static constexpr int kParameters = 0;
  static constexpr int kStates = 1;

  // Adds the persistent slots, and the templates of updates. No update: no optimizer state.
  State(const Stage& stage, const UpdateEmitter& update);

  // `set`: position in StagePlan::sets.
  int parts(int set) const { return kStates + static_cast<int>(sets_[set].states.size()); }
  const std::vector<StateSpec>& states(int set) const { return sets_[set].states; }
  // For people.
  std::string Title(int set, int part) const;
  int slot(int set, int part = kParameters) const { return sets_[set].slots[part]; }
  // Whether the update reads version s of the part.
  bool IsRead(int set, int part) const;
  // What this rank holds of the part.
  Operand Held(int set, int part, int version) const;
  int update_template(int set) const { return sets_[set].update_template; }
  // That an update's range of the flat layout follows from the rank's place in the shard group,
  // also where the part is a slot of its own and nothing moves.
  Operand InRange(int set, Operand part) const;

  // Calls the set's update. `where(part, version)`: version 0 is read, version 1 written.
  void CallUpdate(int set, const Operand& gradient, const Operand& scalars,
                  const std::function<Operand(int part, int version)>& where) const;

 private:
  struct Set {
    std::vector<StateSpec> states;
    std::vector<int> slots;  // by part
    int update_template = -1;
  };
  // Of the part, as a rank holds it.
  int64_t Bytes(int set, int part) const;
  int AddSlot(const std::string& name, Home home, SlotClass klass, int64_t bytes, bool versioned,
              std::string content);

  const Stage& stage_;
  std::vector<Set> sets_;  // of the stage
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_
