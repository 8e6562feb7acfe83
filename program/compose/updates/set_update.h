// The update of one set, range by range, wherever its bytes are at home. It runs where the range's
// state lives, on the device or on the host; what lives elsewhere is brought there, and goes back
// as the next version.
#ifndef STRATA_PROGRAM_COMPOSE_UPDATES_SET_UPDATE_H_
#define STRATA_PROGRAM_COMPOSE_UPDATES_SET_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"
#include "program/compose/sources/transfers.h"

namespace strata::program {

// The step's scalar block, where kernels compute, and where updates on the host read it.
struct ScalarPlaces {
  Operand device, host;
};

class SetUpdate {
 public:
  // Everything must outlive it.
  SetUpdate(const Stage& stage, const State& state, Transfers& transfers,
            const ScalarPlaces& scalars)
      : stage_(stage), state_(state), transfers_(transfers), scalars_(scalars) {}

  // `set`: position in StagePlan::sets; `gradient`: at home. With `guard`, the next version is made
  // only where that scalar says so; what the update needs is brought ahead of it.
  void Run(int set, const Operand& gradient, std::optional<Scalar> guard = std::nullopt);
  // Makes the next version again from both, with the clip factor that is known now.
  void FixUp(int set);
  // Where ranks update parts of parameters that are whole, they gather them.
  void Publish(int set);

  // From instruction `first` on, all take place only where the scalar says so.
  void Guard(size_t first, Scalar scalar);
  size_t next_instruction() const { return stage_.assembler.program().instructions.size(); }

  // Bytes of the largest slab that updates of the stage need; 0: none does.
  static int64_t SlabBytes(const Stage& stage, const State& state);
  // How many at once.
  static int SlabsAtOnce(const Stage& stage, const State& state);

 private:
  struct Range {
    int set = -1;
    int index = -1;  // in SetPlan::ranges
    Home home = Home::kDevice;
  };
  // What of a part of the state the update reads as version 0 and writes as version 1.
  struct Part {
    Operand home;
    Operand staged;  // where it is brought; slot -1: updated at home
    bool is_brought = false;
  };
  const SetPlan& PlanOf(int set) const { return stage_.sets.sets[set]; }
  const std::string& NameOf(int set) const { return stage_.SetOf(PlanOf(set)).name; }
  bool Publishes(int set) const {
    return PlanOf(set).state_parts > 1 && PlanOf(set).parameter_parts == 1;
  }
  std::vector<Range> RangesOf(int set) const;
  void RunRange(const Range& range, const Operand& gradient, std::optional<Scalar> guard);
  void FixUpRange(const Range& range);
  std::vector<Part> PartsOf(const Range& range);
  Operand Staged(const Range& range, Home from, const Operand& home, const std::string& what);
  void ReadParts(const Range& range, const std::vector<Part>& parts);
  void WriteParts(const Range& range, const std::vector<Part>& parts);
  // What the update works on of a part.
  Operand At(const Range& range, const std::vector<Part>& parts, int part, int version) const;
  const Operand& ScalarsOf(const Range& range) const {
    return Plan::UpdatesOnDevice(range.home) ? scalars_.device : scalars_.host;
  }

  const Stage& stage_;
  const State& state_;
  Transfers& transfers_;
  const ScalarPlaces& scalars_;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_UPDATES_SET_UPDATE_H_
