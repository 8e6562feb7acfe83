// A set's state on SSD: read into slabs, worked on there, written as the next version.
#ifndef STRATA_PROGRAM_COMPOSE_UPDATES_THROUGH_SLABS_H_
#define STRATA_PROGRAM_COMPOSE_UPDATES_THROUGH_SLABS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "program/compose/sources/slabs.h"
#include "program/compose/sources/stage.h"
#include "program/compose/sources/state.h"

namespace strata::program {

class ThroughSlabs {
 public:
  using Parts = std::vector<Operand>;  // slabs, by part

  ThroughSlabs(const Stage& stage, const State& state, Slabs& slabs)
      : stage_(stage), state_(state), slabs_(slabs) {}

  // `keep`: the slot of a slab in use; -1: none.
  Parts Read(int set, int keep) const;
  void Write(int set, const Parts& slabs) const;
  // Read, update, write. `gradient`: in a slab.
  void Update(int set, const Operand& gradient, const Operand& scalars) const;

  // From instruction `first` on, all take place only where the scalar says so.
  void Guard(size_t first, Scalar scalar) const;
  size_t next_instruction() const { return stage_.assembler.program().instructions.size(); }
  const std::string& NameOf(int set) const { return stage_.SetOf(stage_.sets.sets[set]).name; }

 private:
  const Stage& stage_;
  const State& state_;
  Slabs& slabs_;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_UPDATES_THROUGH_SLABS_H_
