#include "program/readers/memory.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/units.h"
#include "program/passes/placement.h"

namespace strata::program {
namespace {

using ByClass = std::array<int64_t, kSlotClassCount>;

std::vector<Interval> Lifetimes(const ProgramSet& set, const Program& program) {
  const int shared = static_cast<int>(set.slots.size());
  std::vector<Interval> lifetimes(program.slots.size());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    for (const Operand& operand : instruction.operands) {
      if (operand.slot >= shared) lifetimes[operand.slot - shared].Include(static_cast<int>(i));
    }
    if (instruction.frame >= 0) lifetimes[instruction.frame - shared].Include(static_cast<int>(i));
  }
  return lifetimes;
}

// Looks for the instruction at which this program's slots of the tier are largest.
void ReadProgram(const ProgramSet& set, const Program& program, Tier tier,
                 const ByClass& persistent, TierMemory& memory) {
  const std::vector<Interval> lifetimes = Lifetimes(set, program);
  const int count = static_cast<int>(program.instructions.size());
  std::vector<ByClass> change(count + 1, ByClass{});
  for (size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].tier != tier || lifetimes[s].last < lifetimes[s].first) continue;
    const int klass = static_cast<int>(program.slots[s].klass);
    change[lifetimes[s].first][klass] += program.slots[s].bytes;
    change[lifetimes[s].last + 1][klass] -= program.slots[s].bytes;
  }
  ByClass alive = persistent;
  for (int i = 0; i < count; ++i) {
    int64_t sum = 0;
    for (int k = 0; k < kSlotClassCount; ++k) sum += alive[k] += change[i][k];
    if (sum <= memory.peak_bytes) continue;
    memory.peak_bytes = sum;
    memory.peak_by_class = alive;
    memory.peak_program = program.name;
    memory.peak_instruction = i;
  }
}

}  // namespace

MemoryReport ReadMemory(const ProgramSet& set) {
  MemoryReport report;
  for (int t = 0; t < kTierCount; ++t) {
    TierMemory& memory = report.tiers[t];
    memory.arena_bytes = set.arena_bytes[t];
    ByClass persistent{};
    for (size_t s = 0; s < set.slots.size(); ++s) {
      if (set.slots[s].tier != static_cast<Tier>(t)) continue;
      persistent[static_cast<int>(set.slots[s].klass)] +=
          set.slots[s].bytes * set.placements[s].copies;
    }
    for (const int64_t bytes : persistent) memory.persistent_bytes += bytes;
    memory.peak_by_class = persistent;
    memory.peak_bytes = memory.persistent_bytes;
    for (const Program& program : set.programs) {
      ReadProgram(set, program, static_cast<Tier>(t), persistent, memory);
    }
  }
  return report;
}

std::string MemoryReport::ToText() const {
  std::string text;
  for (int t = 0; t < kTierCount; ++t) {
    const TierMemory& memory = tiers[t];
    if (memory.arena_bytes == 0) continue;
    absl::StrAppendFormat(&text, "%s: %s (%d bytes)", Name(static_cast<Tier>(t)),
                          common::FormatBytes(static_cast<double>(memory.arena_bytes)),
                          memory.arena_bytes);
    if (memory.peak_instruction >= 0) {
      absl::StrAppendFormat(&text, ", largest in %s at instruction %d", memory.peak_program,
                            memory.peak_instruction);
    }
    absl::StrAppend(&text, "\n");
    for (int k = 0; k < kSlotClassCount; ++k) {
      if (memory.peak_by_class[k] == 0) continue;
      absl::StrAppendFormat(&text, "  %-14s %12s\n", Name(static_cast<SlotClass>(k)),
                            common::FormatBytes(static_cast<double>(memory.peak_by_class[k])));
    }
  }
  return text;
}

}  // namespace strata::program
