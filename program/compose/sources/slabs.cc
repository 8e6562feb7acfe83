#include "program/compose/sources/slabs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "program/compose/sources/state.h"

namespace strata::program {

void Slabs::Open() {
  slots_.clear();
  next_ = 0;
  if (stage_.plan.home != Home::kSsd) return;
  int64_t bytes = 0;
  for (const SetPlan& set : stage_.sets.sets) {
    // Weights, states and gradients are cut alike; f32 is the widest of what they may be in.
    bytes = std::max(bytes, stage_.SetOf(set).gradient_bytes() / set.parameter_parts);
  }
  for (int i = 0; i < stage_.plan.slabs; ++i) {
    slots_.push_back(stage_.assembler.AddTransient(Slot{.name = absl::StrCat("slab ", i),
                                                        .tier = Tier::kHost,
                                                        .klass = SlotClass::kStaging,
                                                        .bytes = bytes,
                                                        .alignment = kSsdBlock}));
  }
}

Operand Slabs::Next(int64_t bytes, int keep) {
  int slot = keep;
  while (slot == keep) slot = slots_[next_++ % slots_.size()];
  return Whole(slot, bytes);
}

Operand Slabs::Read(const Operand& from, Purpose purpose, const std::string& label, int keep) {
  Operand slab = Next(from.bytes, keep);
  stage_.assembler.Transfer(Stream::kSsdRead, purpose, label, from, slab);
  return slab;
}

}  // namespace strata::program
