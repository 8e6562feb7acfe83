#include "program/compose/updates/through_slabs.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace strata::program {

ThroughSlabs::Parts ThroughSlabs::Read(int set, int keep) const {
  Parts slabs;
  for (int part = 0; part < state_.parts(set); ++part) {
    const Operand held = state_.Held(set, part, 0);
    slabs.push_back(
        state_.IsRead(set, part)
            ? slabs_.Read(held, Purpose::kUpdate,
                          absl::StrCat("read ", state_.Title(set, part), " of ", NameOf(set)), keep)
            : slabs_.Next(held.bytes, keep));
  }
  return slabs;
}

void ThroughSlabs::Write(int set, const Parts& slabs) const {
  for (int part = 0; part < state_.parts(set); ++part) {
    stage_.assembler.Transfer(Stream::kSsdWrite, Purpose::kUpdate,
                              absl::StrCat("write ", state_.Title(set, part), " of ", NameOf(set)),
                              slabs[part], state_.Held(set, part, 1));
  }
}

void ThroughSlabs::Update(int set, const Operand& gradient, const Operand& scalars) const {
  const Parts slabs = Read(set, gradient.slot);
  state_.CallUpdate(set, gradient, scalars, [&](int part, int) {
    return part == State::kParameters ? state_.InRange(set, slabs[part]) : slabs[part];
  });
  Write(set, slabs);
}

void ThroughSlabs::Guard(size_t first, Scalar scalar) const {
  std::vector<Instruction>& instructions = stage_.assembler.program().instructions;
  for (size_t i = first; i < instructions.size(); ++i) instructions[i].predicate = {scalar};
}

}  // namespace strata::program
