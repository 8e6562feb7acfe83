// Parameters and optimizer state of a stage where they are at home: their slots, and the call that
// updates a set.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "program/compose/sources/stage.h"

namespace strata::program {

inline constexpr int64_t kSsdBlock = 4096;  // bytes; direct I/O moves whole blocks

class State {
 public:
  // What of a set is kept.
  enum Part : int { kParameters, kFirstMoment, kSecondMoment };
  static constexpr int kParts = 3;
  static const char* Name(int part);

  // Adds the persistent slots, and the templates of updates. No update: no optimizer state.
  State(const Stage& stage, const UpdateEmitter& update);

  // `set`: position in StagePlan::sets. -1: it has none.
  int slot(int set, int part = kParameters) const { return sets_[set].slots[part]; }
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
    std::array<int, kParts> slots{-1, -1, -1};
    int update_template = -1;
  };
  int AddSlot(const std::string& name, SlotClass klass, int64_t bytes, bool versioned);

  const Stage& stage_;
  std::vector<Set> sets_;  // of the stage
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_STATE_H_
