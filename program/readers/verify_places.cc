#include "program/readers/verify_places.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::program {
namespace {

class PlacesVerifier {
 public:
  PlacesVerifier(const ProgramSet& set, const Program& program)
      : set_(set),
        program_(program),
        slots_(static_cast<int>(set.slots.size() + program.slots.size())),
        used_(slots_, false) {}

  absl::Status Run() {
    if (set_.placements.size() != set_.slots.size() ||
        program_.placements.size() != program_.slots.size()) {
      return Refuse("the layout has not given every slot a place");
    }
    for (const Template& tmpl : set_.templates) RETURN_IF_ERROR(CheckTemplate(tmpl));
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      RETURN_IF_ERROR(CheckInstruction(static_cast<int>(i)));
    }
    for (size_t s = 0; s < set_.slots.size(); ++s) used_[s] = true;
    for (int s = 0; s < slots_; ++s) {
      if (used_[s]) RETURN_IF_ERROR(CheckPlace(s));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Refuse(const std::string& what) const {
    return absl::FailedPreconditionError(absl::StrCat("program ", program_.name, ": ", what));
  }

  absl::Status CheckTemplate(const Template& tmpl) const {
    const int known = static_cast<int>(tmpl.formals.size() + tmpl.locals.size());
    if (tmpl.local_offsets.size() != tmpl.locals.size()) {
      return Refuse(absl::StrCat("template ", tmpl.name, " has no frame"));
    }
    for (size_t o = 0; o < tmpl.ops.size(); ++o) {
      for (const Operand& operand : tmpl.ops[o].operands) {
        if (operand.slot < 0 || operand.slot >= known) {
          return Refuse(
              absl::StrCat("template ", tmpl.name, ", op ", o, ": no slot ", operand.slot));
        }
        RETURN_IF_ERROR(CheckLocal(tmpl, operand.slot - static_cast<int>(tmpl.formals.size())));
      }
      for (const int earlier : tmpl.ops[o].dependencies) {
        if (earlier < 0 || earlier >= static_cast<int>(o)) {
          return Refuse(
              absl::StrCat("template ", tmpl.name, ", op ", o, " depends on op ", earlier));
        }
      }
    }
    return absl::OkStatus();
  }

  // Formals, which are none, have negative numbers.
  absl::Status CheckLocal(const Template& tmpl, int local) const {
    if (local < 0) return absl::OkStatus();
    const int64_t at = tmpl.local_offsets[local];
    if (at >= 0 && at % tmpl.locals[local].alignment == 0 &&
        at + tmpl.locals[local].bytes <= tmpl.frame_bytes) {
      return absl::OkStatus();
    }
    return Refuse(absl::StrCat("template ", tmpl.name, ": local '", tmpl.locals[local].name,
                               "' at ", at, " is misaligned or outside its frame"));
  }

  absl::Status CheckInstruction(int index) {
    const Instruction& instruction = program_.instructions[index];
    const std::string where = absl::StrCat("instruction ", index, " (", instruction.label, ") ");
    for (const Operand& operand : instruction.operands) {
      if (operand.slot < 0 || operand.slot >= slots_) {
        return Refuse(absl::StrCat(where, "names slot ", operand.slot, ", which does not exist"));
      }
      used_[operand.slot] = true;
    }
    for (const Dependency& dependency : instruction.dependencies) {
      const int limit =
          dependency.steps_back == 0 ? index : static_cast<int>(program_.instructions.size());
      if (dependency.instruction < 0 || dependency.instruction >= limit ||
          dependency.steps_back < 0 || dependency.steps_back > 1) {
        return Refuse(absl::StrCat(where, "depends on instruction ", dependency.instruction, ", ",
                                   dependency.steps_back,
                                   " steps back, which does not come before it"));
      }
    }
    if (instruction.predicate.has_value() && set_.scalars < 0) {
      return Refuse(absl::StrCat(where, "has a predicate, but there is no scalar block"));
    }
    RETURN_IF_ERROR(CheckPredicate(instruction, where));
    if (instruction.mechanism != Mechanism::kCall) return absl::OkStatus();
    if (instruction.template_index < 0 ||
        instruction.template_index >= static_cast<int>(set_.templates.size())) {
      return Refuse(absl::StrCat(where, "calls template ", instruction.template_index));
    }
    const Template& tmpl = set_.templates[instruction.template_index];
    if (tmpl.formals.size() != instruction.operands.size()) {
      return Refuse(absl::StrCat(where, "binds ", instruction.operands.size(), " of ",
                                 tmpl.formals.size(), " formals of template ", tmpl.name));
    }
    if (tmpl.ops.empty()) return Refuse(absl::StrCat(where, "calls a template without ops"));
    if (tmpl.locals.empty() || tmpl.frame_bytes == 0) return absl::OkStatus();
    const int frame = instruction.frame;
    if (frame < 0 || frame >= slots_ || set_.slot(program_, frame).bytes < tmpl.frame_bytes) {
      return Refuse(absl::StrCat(where, "has no frame for the locals of template ", tmpl.name));
    }
    used_[frame] = true;
    return absl::OkStatus();
  }

  // Ranks that communicate must agree that they do, and recorded steps (CUDA graphs) contain it
  // always: no flag may leave it out.
  absl::Status CheckPredicate(const Instruction& instruction, const std::string& where) const {
    if (!instruction.predicate.has_value()) return absl::OkStatus();
    bool communicates = instruction.mechanism != Mechanism::kTransfer &&
                        instruction.mechanism != Mechanism::kSignal;
    if (instruction.mechanism == Mechanism::kCall) {
      const int index = instruction.template_index;
      communicates = index >= 0 && index < static_cast<int>(set_.templates.size()) &&
                     std::any_of(set_.templates[index].ops.begin(), set_.templates[index].ops.end(),
                                 [](const Op& op) { return op.kind == OpKind::kCollective; });
    }
    if (!communicates) return absl::OkStatus();
    return Refuse(absl::StrCat(where, "communicates, but takes place only where ",
                               Name(instruction.predicate->scalar),
                               " says so: others may wait for it"));
  }

  // Persistent slots come first in the numbering, so transient ones meet them all.
  absl::Status CheckPlace(int index) {
    const Slot& slot = set_.slot(program_, index);
    if (slot.bytes == 0) return absl::OkStatus();
    const Placement& place = set_.placement(program_, index);
    const int tier = static_cast<int>(slot.tier);
    const std::string name = absl::StrCat("slot '", slot.name, "' at ", place.offset, " ");
    if (place.copies < 1 || place.copies > 2 || (place.copies > 1 && place.stride < slot.bytes)) {
      return Refuse(absl::StrCat(name, "has ", place.copies, " copies ", place.stride, " apart"));
    }
    for (int copy = 0; copy < place.copies; ++copy) {
      const int64_t begin = place.at(copy, 0), end = begin + slot.bytes;
      if (begin < 0 || begin % slot.alignment != 0 || end > set_.arena_bytes[tier]) {
        return Refuse(absl::StrCat(name, "is misaligned or outside the arena of ",
                                   set_.arena_bytes[tier], " bytes"));
      }
      auto& taken = persistent_[tier];
      const auto next = taken.lower_bound(end);
      if (next != taken.begin()) {
        const auto& [other_begin, other] = *std::prev(next);
        if (other_begin + set_.slots[other].bytes > begin) {
          return Refuse(absl::StrCat(name, "shares bytes with persistent slot '",
                                     set_.slots[other].name, "' at ", other_begin));
        }
      }
      if (index < static_cast<int>(set_.slots.size())) taken[begin] = index;
    }
    return absl::OkStatus();
  }

  const ProgramSet& set_;
  const Program& program_;
  const int slots_;
  std::vector<bool> used_;
  std::array<std::map<int64_t, int>, kTierCount> persistent_;  // slot by begin of each copy
};

}  // namespace

absl::Status VerifyPlaces(const ProgramSet& set, const Program& program) {
  return PlacesVerifier(set, program).Run();
}

}  // namespace strata::program
