#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "program/compose/updates/through_slabs.h"
#include "program/compose/updates/updates.h"

namespace strata::program {
namespace {

class Spooled final : public Updates {
 public:
  Spooled(const Stage& stage, const State& state, Slabs& slabs, const Operand& scalars)
      : stage_(stage),
        slabs_(slabs),
        through_(stage, state, slabs),
        scalars_(scalars),
        spooled_(stage.sets.sets.size()) {}

  void AtGradient(int set, const Operand& gradient) override {
    const std::string name = absl::StrCat("gradient of ", through_.NameOf(set));
    const int slot = stage_.assembler.AddTransient(Slot{.name = absl::StrCat(name, ", whole"),
                                                        .tier = Tier::kSsd,
                                                        .klass = SlotClass::kGradients,
                                                        .bytes = gradient.bytes,
                                                        .alignment = kSsdBlock});
    spooled_[set] = Whole(slot, gradient.bytes);
    stage_.assembler.Transfer(Stream::kSsdWrite, Purpose::kStash, absl::StrCat("write ", name),
                              gradient, spooled_[set]);
  }

  void AtEnd(int set, const Operand&) override {
    const size_t first = through_.next_instruction();
    const Operand gradient = slabs_.Read(spooled_[set], Purpose::kFetch,
                                         absl::StrCat("read gradient of ", through_.NameOf(set)));
    through_.Update(set, gradient, scalars_);
    through_.Guard(first, Scalar::kApply);
  }

 private:
  const Stage& stage_;
  Slabs& slabs_;
  const ThroughSlabs through_;
  const Operand& scalars_;
  std::vector<Operand> spooled_;  // per set
};

}  // namespace

std::unique_ptr<Updates> MakeSpooled(const Stage& stage, const State& state, Slabs& slabs,
                                     const Operand& scalars) {
  return std::make_unique<Spooled>(stage, state, slabs, scalars);
}

}  // namespace strata::program
