#include "program/readers/verify_in_flight.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::program {
namespace {

struct InFlight {
  int most = 0;
  int at = -1;  // the instruction with which it is reached first
};

InFlight Count(const ProgramSet& set, const Program& program) {
  struct Span {
    int first = -1, last = -1;  // instructions
  };
  const int count = static_cast<int>(program.instructions.size());
  std::map<int, Span> spans;  // by pass
  for (int i = 0; i < count; ++i) {
    const bool calls = program.instructions[i].mechanism == Mechanism::kCall;
    for (const Operand& operand : program.instructions[i].operands) {
      const int pass = set.slot(program, operand.slot).pass;
      if (pass < 0) continue;
      Span& span = spans[pass];
      if (span.first < 0 && calls) span.first = i;
      span.last = i;
    }
  }
  std::vector<int> change(count + 1, 0);  // before each instruction
  for (const auto& [pass, span] : spans) {
    if (span.first < 0) continue;
    ++change[span.first];
    --change[span.last + 1];
  }
  InFlight found;
  for (int i = 0, held = 0; i < count; ++i) {
    held += change[i];
    if (held > found.most) found = {held, i};
  }
  return found;
}

// What calls save and use again must count for the pass that they are of.
absl::Status CheckSaved(const ProgramSet& set, const Program& program,
                        const Instruction& instruction) {
  const auto refuse = [&](const auto&... what) {
    return absl::FailedPreconditionError(
        absl::StrCat("program ", program.name, ", ", instruction.label, ": ", what...));
  };
  if (instruction.mechanism != Mechanism::kCall) return absl::OkStatus();
  const std::vector<Formal>& formals = set.templates[instruction.template_index].formals;
  const Slot* before = nullptr;
  for (size_t f = 0; f < formals.size(); ++f) {
    if (formals[f].role != Role::kSaved) continue;
    const Slot& slot = set.slot(program, instruction.operands[f].slot);
    if (slot.pass < 0) return refuse(slot.name, " is saved for a backward and counts for no pass");
    if (before != nullptr && before->pass != slot.pass) {
      return refuse(before->name, " and ", slot.name, " are of different passes");
    }
    before = &slot;
  }
  return absl::OkStatus();
}

}  // namespace

int MostInFlight(const ProgramSet& set, const Program& program) { return Count(set, program).most; }

absl::Status VerifyInFlight(const ProgramSet& set, const Program& program) {
  if (program.most_in_flight == 0) return absl::OkStatus();
  for (const Instruction& instruction : program.instructions) {
    RETURN_IF_ERROR(CheckSaved(set, program, instruction));
  }
  const InFlight found = Count(set, program);
  if (found.most <= program.most_in_flight) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("program ", program.name, ", instruction ", found.at, " (",
                   program.instructions[found.at].label, "): ", found.most,
                   " passes in flight, of which activations are kept; the schedule allows ",
                   program.most_in_flight));
}

}  // namespace strata::program
