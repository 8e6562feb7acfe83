#include "program/compose/sources/transfers.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::program {
namespace {

Operand PieceOf(Operand operand, int64_t offset, int64_t bytes) {
  operand.offset += offset;
  operand.bytes = bytes;
  return operand;
}

}  // namespace

void Transfers::Open(int64_t slab_bytes) {
  slots_.clear();
  next_ = 0;
  slab_bytes_ = slab_bytes;
  if (slab_bytes == 0) return;
  for (int i = 0; i < stage_.plan.slabs; ++i) {
    slots_.push_back(stage_.assembler.AddTransient(Slot{.name = absl::StrCat("slab ", i),
                                                        .tier = Tier::kHost,
                                                        .klass = SlotClass::kStaging,
                                                        .bytes = slab_bytes,
                                                        .alignment = kSsdBlock}));
  }
}

Operand Transfers::Slab(int64_t bytes) { return Whole(slots_[next_++ % slots_.size()], bytes); }

Tier Transfers::TierOf(const Operand& operand) const {
  const ProgramSet& set = stage_.assembler.set();
  return set.slot(set.programs.back(), operand.slot).tier;
}

void Transfers::Move(const Operand& from, const Operand& to, Purpose purpose,
                     const std::string& what) {
  const Tier source = TierOf(from), target = TierOf(to);
  if (source == Tier::kSsd && target == Tier::kHost) {
    stage_.assembler.Transfer(Stream::kSsdRead, purpose, absl::StrCat("read ", what), from, to);
  } else if (source == Tier::kHost && target == Tier::kSsd) {
    stage_.assembler.Transfer(Stream::kSsdWrite, purpose, absl::StrCat("write ", what), from, to);
  } else if (source == Tier::kSsd || target == Tier::kSsd) {
    MoveThroughSlabs(from, to, purpose, what);
  } else {
    const bool fetch = target == Tier::kDevice;
    stage_.assembler.Transfer(fetch ? Stream::kFetch : Stream::kEvict, purpose,
                              absl::StrCat(fetch ? "fetch " : "stash ", what), from, to);
  }
}

void Transfers::MoveThroughSlabs(const Operand& from, const Operand& to, Purpose purpose,
                                 const std::string& what) {
  for (int64_t offset = 0; offset < from.bytes; offset += slab_bytes_) {
    const int64_t bytes = std::min(slab_bytes_, from.bytes - offset);
    Operand slab = Slab(bytes);
    slab.partial = from.partial;
    Move(PieceOf(from, offset, bytes), slab, purpose, what);
    Move(slab, PieceOf(to, offset, bytes), purpose, what);
  }
}

}  // namespace strata::program
