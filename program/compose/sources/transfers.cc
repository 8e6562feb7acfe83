#include "program/compose/sources/transfers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

Operand PieceOf(Operand operand, int64_t offset, int64_t bytes) {
  operand.offset += offset;
  operand.bytes = bytes;
  return operand;
}

}  // namespace

Transfers::Transfers(const Stage& stage, TransfersOf of)
    : stage_(stage),
      of_(of),
      fetch_(of == TransfersOf::kUpdates ? Stream::kUpdateFetch : Stream::kFetch),
      evict_(of == TransfersOf::kUpdates ? Stream::kUpdateEvict : Stream::kEvict),
      read_(of == TransfersOf::kUpdates ? Stream::kUpdateRead : Stream::kSsdRead),
      write_(of == TransfersOf::kUpdates ? Stream::kUpdateWrite : Stream::kSsdWrite) {}

void Transfers::Open(int64_t slab_bytes) {
  in_ = out_ = {};
  slab_bytes_ = slab_bytes;
  if (slab_bytes == 0 || of_ == TransfersOf::kPasses) return;
  while (in_.slots.size() < SlabsOfARing()) AddSlab(in_);
}

size_t Transfers::SlabsOfARing() const {
  const int slabs = stage_.plan.slabs;
  return of_ == TransfersOf::kUpdates ? slabs : std::max(2, slabs / 4);
}

void Transfers::AddSlab(Ring& ring) {
  const bool updates = of_ == TransfersOf::kUpdates;
  const char* name = updates ? "update slab " : &ring == &in_ ? "slab in " : "slab out ";
  Slot slab{.name = absl::StrCat(name, ring.slots.size()),
            .tier = Tier::kHost,
            .klass = SlotClass::kStaging,
            .bytes = slab_bytes_,
            .alignment = kSsdBlock};
  ring.slots.push_back(updates ? stage_.assembler.AddPersistent(std::move(slab))
                               : stage_.assembler.AddTransient(std::move(slab)));
}

Operand Transfers::SlabOf(Ring& ring, int64_t bytes) {
  const size_t slab = ring.next++ % SlabsOfARing();
  if (slab == ring.slots.size()) AddSlab(ring);
  return Whole(ring.slots[slab], bytes);
}

const Slot& Transfers::SlotOf(const Operand& operand) const {
  const ProgramSet& set = stage_.assembler.set();
  return set.slot(set.programs.back(), operand.slot);
}

void Transfers::Move(const Operand& from, const Operand& to, Purpose purpose,
                     const std::string& what) {
  const Tier source = TierOf(from), target = TierOf(to);
  if (source == Tier::kSsd && target == Tier::kHost) {
    stage_.assembler.Transfer(read_, purpose, absl::StrCat("read ", what), from, to);
  } else if (source == Tier::kHost && target == Tier::kSsd) {
    stage_.assembler.Transfer(write_, purpose, absl::StrCat("write ", what), from, to);
  } else if (source == Tier::kSsd || target == Tier::kSsd) {
    MoveThroughSlabs(from, to, purpose, what);
  } else {
    const bool fetch = target == Tier::kDevice;
    stage_.assembler.Transfer(fetch ? fetch_ : evict_, purpose,
                              absl::StrCat(fetch ? "fetch " : "stash ", what), from, to);
    // Pages leave their room, so that even those who read there come first.
    const bool leaves = source == Tier::kDevice && IsUnified(SlotOf(from));
    if (leaves) stage_.assembler.last().operands[0].access = Access::kAccumulate;
  }
}

void Transfers::MoveThroughSlabs(const Operand& from, const Operand& to, Purpose purpose,
                                 const std::string& what) {
  Ring& ring = of_ == TransfersOf::kPasses && TierOf(to) == Tier::kSsd ? out_ : in_;
  for (int64_t offset = 0; offset < from.bytes; offset += slab_bytes_) {
    const int64_t bytes = std::min(slab_bytes_, from.bytes - offset);
    Operand slab = SlabOf(ring, bytes);
    slab.partial = from.partial;
    Move(PieceOf(from, offset, bytes), slab, purpose, what);
    Move(slab, PieceOf(to, offset, bytes), purpose, what);
  }
}

}  // namespace strata::program
