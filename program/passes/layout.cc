#include "program/passes/layout.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/passes/check_set.h"
#include "program/passes/dependencies.h"
#include "program/passes/layout_template.h"
#include "program/passes/lifetimes.h"
#include "program/passes/placement.h"
#include "program/passes/versions.h"

namespace strata::program {
namespace {

void AddFrames(ProgramSet& set, Program& program, Tier tier) {
  for (Instruction& instruction : program.instructions) {
    if (instruction.mechanism != Mechanism::kCall) continue;
    const Template& tmpl = set.templates[instruction.template_index];
    if (tmpl.frame_bytes == 0) continue;
    int64_t alignment = kSlotAlignment;
    for (const Slot& local : tmpl.locals) alignment = std::max(alignment, local.alignment);
    instruction.frame = static_cast<int>(set.slots.size() + program.slots.size());
    program.slots.push_back({.name = absl::StrCat("locals of ", instruction.label),
                             .tier = tier,
                             .klass = SlotClass::kWorkspace,
                             .bytes = tmpl.frame_bytes,
                             .alignment = alignment});
  }
}

// What the tier has to hold: slots of others need no bytes.
std::vector<Interval> InTier(std::vector<Interval> intervals, const Program& program, Tier tier) {
  for (size_t s = 0; s < program.slots.size(); ++s) {
    if (program.slots[s].tier != tier) continue;
    intervals[s].bytes = program.slots[s].bytes;
    intervals[s].alignment = program.slots[s].alignment;
  }
  return intervals;
}

void PlacePersistent(ProgramSet& set) {
  set.placements.assign(set.slots.size(), {});
  std::vector<bool> two_copies(set.slots.size(), false);
  if (std::any_of(set.slots.begin(), set.slots.end(), [](const Slot& s) { return s.versioned; })) {
    for (const Program& program : set.programs) FindSlotsWithTwoCopies(set, program, two_copies);
  }
  for (size_t s = 0; s < set.slots.size(); ++s) {
    const Slot& slot = set.slots[s];
    Placement& placement = set.placements[s];
    placement.copies = two_copies[s] ? 2 : 1;
    int64_t& next = set.arena_bytes[static_cast<int>(slot.tier)];
    placement.stride = common::RoundUp(slot.bytes, slot.alignment);
    placement.offset = common::RoundUp(next, slot.alignment);
    next = placement.offset + placement.stride * placement.copies;
  }
}

void PlaceTransient(ProgramSet& set, int horizon) {
  const auto persistent = set.arena_bytes;
  for (Program& program : set.programs) {
    program.placements.assign(program.slots.size(), {});
    const std::vector<Interval> lifetimes = LifetimesOf(set, program, horizon);
    for (int t = 0; t < kTierCount; ++t) {
      const Packing packing = Pack(InTier(lifetimes, program, static_cast<Tier>(t)));
      int64_t alignment = kPageBytes;
      for (const Slot& slot : program.slots) alignment = std::max(alignment, slot.alignment);
      const int64_t base = common::RoundUp(persistent[t], alignment);
      for (size_t s = 0; s < program.slots.size(); ++s) {
        if (program.slots[s].tier == static_cast<Tier>(t))
          program.placements[s].offset = base + packing.offsets[s];
      }
      if (packing.bytes > 0)
        set.arena_bytes[t] = std::max(set.arena_bytes[t], base + packing.bytes);
    }
  }
  for (int64_t& bytes : set.arena_bytes) bytes = common::RoundUp(bytes, kPageBytes);
}

}  // namespace

absl::Status LayOut(ProgramSet& set, const LayoutOptions& options) {
  RETURN_IF_ERROR(CheckSet(set));
  for (Template& tmpl : set.templates) LayOutTemplate(tmpl, set.groups, options.horizon_ops);
  set.arena_bytes = {};
  for (Program& program : set.programs) AddFrames(set, program, set.compute_tier);
  PlacePersistent(set);
  PlaceTransient(set, options.horizon_calls);
  for (Program& program : set.programs) AddDependencies(set, program);
  return absl::OkStatus();
}

}  // namespace strata::program
