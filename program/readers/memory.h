// The memory reader: exact bytes of a laid-out program set, per tier and class.
#ifndef STRATA_PROGRAM_READERS_MEMORY_H_
#define STRATA_PROGRAM_READERS_MEMORY_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "program/ir/program.h"

namespace strata::program {

struct TierMemory {
  int64_t arena_bytes = 0;       // what is allocated: whole pages
  int64_t persistent_bytes = 0;  // state and constants, with both copies of what needs two
  // Of the program whose transient slots need most, at the instruction where they are largest:
  std::string peak_program;
  int peak_instruction = -1;
  int64_t peak_bytes = 0;  // persistent and transient slots alive there
  std::array<int64_t, kSlotClassCount> peak_by_class{};  // sums to peak_bytes
  // Per class the largest sum alive at any instruction of any program: of classes that are not
  // largest together, more than at the peak.
  std::array<int64_t, kSlotClassCount> largest_by_class{};
  // Of slots alive there that say what they hold (Slot::content): by class, in the order of slots.
  struct Content {
    SlotClass klass = SlotClass::kParameters;
    std::string what;  // "master, f32"
    int64_t bytes = 0;
  };
  std::vector<Content> contents;
};

struct MemoryReport {
  std::array<TierMemory, kTierCount> tiers;

  // A table for people; tiers that nothing uses are left out.
  std::string ToText() const;
};

MemoryReport ReadMemory(const ProgramSet& set);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_READERS_MEMORY_H_
