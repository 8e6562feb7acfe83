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
    for (int k = 0; k < kSlotClassCount; ++k) {
      sum += alive[k] += change[i][k];
      memory.largest_by_class[k] = std::max(memory.largest_by_class[k], alive[k]);
    }
    if (sum <= memory.peak_bytes) continue;
    memory.peak_bytes = sum;
    memory.peak_by_class = alive;
    memory.peak_program = program.name;
    memory.peak_instruction = i;
  }
}

void AddContent(const Slot& slot, int64_t bytes, std::vector<TierMemory::Content>& contents) {
  if (slot.content.empty()) return;
  auto found = std::find_if(contents.begin(), contents.end(), [&](const auto& content) {
    return content.klass == slot.klass && content.what == slot.content;
  });
  if (found == contents.end()) {
    found = contents.insert(found, {.klass = slot.klass, .what = slot.content});
  }
  found->bytes += bytes;
}

// At the peak.
void ReadContents(const ProgramSet& set, Tier tier, TierMemory& memory) {
  for (size_t s = 0; s < set.slots.size(); ++s) {
    if (set.slots[s].tier != tier) continue;
    AddContent(set.slots[s], set.slots[s].bytes * set.placements[s].copies, memory.contents);
  }
  const Program* const program = set.find(memory.peak_program);
  if (program != nullptr) {
    const std::vector<Interval> lifetimes = Lifetimes(set, *program);
    for (size_t s = 0; s < program->slots.size(); ++s) {
      const bool alive = lifetimes[s].first <= memory.peak_instruction &&
                         memory.peak_instruction <= lifetimes[s].last;
      if (alive && program->slots[s].tier == tier) {
        AddContent(program->slots[s], program->slots[s].bytes, memory.contents);
      }
    }
  }
  std::stable_sort(memory.contents.begin(), memory.contents.end(),
                   [](const auto& a, const auto& b) { return a.klass < b.klass; });
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
    memory.peak_by_class = memory.largest_by_class = persistent;
    memory.peak_bytes = memory.persistent_bytes;
    for (const Program& program : set.programs) {
      ReadProgram(set, program, static_cast<Tier>(t), persistent, memory);
    }
    ReadContents(set, static_cast<Tier>(t), memory);
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
      for (const TierMemory::Content& content : memory.contents) {
        if (content.klass != static_cast<SlotClass>(k)) continue;
        absl::StrAppendFormat(&text, "    %-22s %12s\n", content.what,
                              common::FormatBytes(static_cast<double>(content.bytes)));
      }
    }
  }
  return text;
}

}  // namespace strata::program
