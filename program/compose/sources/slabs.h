// Slabs: pinned host buffers through which bytes on SSD pass, used in turn. Whoever takes one is
// done with it before the others have been taken; the layout makes later users wait.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_SLABS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_SLABS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/compose/sources/stage.h"

namespace strata::program {

class Slabs {
 public:
  explicit Slabs(const Stage& stage) : stage_(stage) {}

  // Of the program begun last; none but with Home::kSsd.
  void Open();
  // `keep`: the slot of a slab that is still in use; -1: none.
  Operand Next(int64_t bytes, int keep = -1);
  // Reads from SSD into the next slab.
  Operand Read(const Operand& from, Purpose purpose, const std::string& label, int keep = -1);

 private:
  const Stage& stage_;
  std::vector<int> slots_;
  size_t next_ = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_SLABS_H_
