#include "program/passes/layout.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "program/ir/unified.h"
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

// What of a tier is placed together: its arena, or what lies in unified memory, behind it.
struct Area {
  Tier tier;
  bool unified;
  bool Has(const Slot& slot) const { return slot.tier == tier && IsUnified(slot) == unified; }
};

// What the area has to hold: slots of others need no bytes.
std::vector<Interval> InArea(std::vector<Interval> intervals, const Program& program,
                             const Area& area) {
  for (size_t s = 0; s < program.slots.size(); ++s) {
    const Slot& slot = program.slots[s];
    if (!area.Has(slot)) continue;
    intervals[s].bytes = area.unified ? common::RoundUp(slot.bytes, slot.alignment) : slot.bytes;
    intervals[s].alignment = slot.alignment;
  }
  return intervals;
}

// What leaves after the last product is held to the end where that costs the area no bytes, else
// for two calls more: the next call's bytes come and the last one's go while a call uses its own.
// All that updates send home would take a whole model's place.
Packing PackArea(const Lifetimes& lifetimes, const Program& program, const Area& area) {
  const std::vector<Interval> to_the_end = InArea(lifetimes.Finish(), program, area);
  const std::vector<Interval> for_two_calls = InArea(lifetimes.Finish(2), program, area);
  Packing packing = Pack(to_the_end);
  if (for_two_calls == to_the_end) return packing;
  Packing less = Pack(for_two_calls);
  return less.bytes < packing.bytes ? less : packing;
}

std::vector<bool> SlotsWithTwoCopies(const ProgramSet& set) {
  std::vector<bool> two_copies(set.slots.size(), false);
  if (std::any_of(set.slots.begin(), set.slots.end(), [](const Slot& s) { return s.versioned; })) {
    for (const Program& program : set.programs) FindSlotsWithTwoCopies(set, program, two_copies);
  }
  return two_copies;
}

void PlacePersistent(ProgramSet& set, const std::vector<bool>& two_copies, bool unified) {
  for (size_t s = 0; s < set.slots.size(); ++s) {
    const Slot& slot = set.slots[s];
    if (IsUnified(slot) != unified) continue;
    Placement& placement = set.placements[s];
    placement.copies = two_copies[s] ? 2 : 1;
    int64_t& next = set.arena_bytes[static_cast<int>(slot.tier)];
    placement.stride = common::RoundUp(slot.bytes, slot.alignment);
    placement.offset = common::RoundUp(next, slot.alignment);
    next = placement.offset + placement.stride * placement.copies;
  }
}

void PlaceTransient(ProgramSet& set, bool unified, int horizon) {
  const auto persistent = set.arena_bytes;
  for (Program& program : set.programs) {
    const auto has_any = [&](const Slot& slot) { return IsUnified(slot) == unified; };
    if (std::none_of(program.slots.begin(), program.slots.end(), has_any)) continue;
    const Lifetimes lifetimes = LifetimesOf(set, program, horizon);
    int64_t alignment = kPageBytes;
    for (const Slot& slot : program.slots) {
      if (has_any(slot)) alignment = std::max(alignment, slot.alignment);
    }
    for (int t = 0; t < kTierCount; ++t) {
      const Area area{static_cast<Tier>(t), unified};
      const Packing packing = PackArea(lifetimes, program, area);
      const int64_t base = common::RoundUp(persistent[t], alignment);
      for (size_t s = 0; s < program.slots.size(); ++s) {
        if (area.Has(program.slots[s])) program.placements[s].offset = base + packing.offsets[s];
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
  set.placements.assign(set.slots.size(), {});
  for (Program& program : set.programs) program.placements.assign(program.slots.size(), {});
  const std::vector<bool> two_copies = SlotsWithTwoCopies(set);
  for (const bool unified : {false, true}) {
    PlacePersistent(set, two_copies, unified);
    PlaceTransient(set, unified, options.horizon_calls);
  }
  for (Program& program : set.programs) AddDependencies(set, program);
  return absl::OkStatus();
}

}  // namespace strata::program
