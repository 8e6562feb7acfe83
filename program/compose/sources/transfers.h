// Copies between tiers. What goes between the device and SSD passes through slabs: host buffers
// used in turn. Whoever takes one is done with it before the others have been taken; the layout
// makes later users wait.
//
// Updates have streams of their own, and slabs that nothing takes turns with: those of one step may
// go on while the passes of the next one bring what they need.
#ifndef STRATA_PROGRAM_COMPOSE_SOURCES_TRANSFERS_H_
#define STRATA_PROGRAM_COMPOSE_SOURCES_TRANSFERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "program/compose/sources/stage.h"

namespace strata::program {

inline constexpr int64_t kSsdBlock = 4096;  // bytes; direct I/O moves whole blocks

enum class TransfersOf : uint8_t { kPasses, kUpdates };

class Transfers {
 public:
  Transfers(const Stage& stage, TransfersOf of);

  // Of the program begun last; those of updates once, before the first program. `slab_bytes`: of
  // the largest piece that passes through one; 0: none does, and there are no slabs. Those of
  // passes are there once something has passed: a stage may move nothing.
  void Open(int64_t slab_bytes);
  // "bring X", "take X": what is done to it, by the direction.
  void Move(const Operand& from, const Operand& to, Purpose purpose, const std::string& what);
  // For what the host works on.
  Operand Slab(int64_t bytes) { return SlabOf(in_, bytes); }
  Tier TierOf(const Operand& operand) const { return SlotOf(operand).tier; }

 private:
  struct Ring {
    std::vector<int> slots;
    size_t next = 0;
  };

  const Slot& SlotOf(const Operand& operand) const;
  size_t SlabsOfARing() const;
  Operand SlabOf(Ring& ring, int64_t bytes);
  void AddSlab(Ring& ring);
  void MoveThroughSlabs(const Operand& from, const Operand& to, Purpose purpose,
                        const std::string& what);

  const Stage& stage_;
  const TransfersOf of_;
  const Stream fetch_, evict_, read_, write_;
  Ring in_, out_;  // what passes bring does not wait for what leaves; updates have one ring
  int64_t slab_bytes_ = 0;
};

}  // namespace strata::program

#endif  // STRATA_PROGRAM_COMPOSE_SOURCES_TRANSFERS_H_
