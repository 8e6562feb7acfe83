#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "program/compose/updates/through_slabs.h"
#include "program/compose/updates/updates.h"

namespace strata::program {
namespace {

class Speculative final : public Updates {
 public:
  Speculative(const Stage& stage, const State& state, Slabs& slabs, const Operand& scalars)
      : stage_(stage),
        state_(state),
        slabs_(slabs),
        through_(stage, state, slabs),
        scalars_(scalars) {}

  void AtGradient(int set, const Operand& gradient) override {
    through_.Update(set, gradient, scalars_);
  }

  // Makes the next version again where the norm turned out to clip.
  void AtEnd(int set, const Operand&) override {
    const size_t first = through_.next_instruction();
    const ThroughSlabs::Parts slabs = through_.Read(set, -1);
    const Operand next =
        slabs_.Read(state_.Held(set, State::kStates, 1), Purpose::kFixUp,
                    absl::StrCat("read next first moment of ", through_.NameOf(set)));
    std::vector<Operand> operands(slabs.begin(), slabs.end());
    operands[State::kParameters] = state_.InRange(set, operands[State::kParameters]);
    operands.push_back(next);
    operands.push_back(scalars_);
    for (int part = 0; part < state_.parts(set); ++part) {
      operands.push_back(operands[part]);
      operands.back().access = Access::kWrite;
    }
    // The attributes of the update that is made again: rates, and which ranges decay.
    const Op& update = stage_.assembler.set().templates[state_.update_template(set)].ops.front();
    Op fix_up{.kind = OpKind::kAdamWFixUp,
              .ints = update.ints,
              .floats = update.floats,
              .flops = 4.0 * static_cast<double>(next.bytes)};
    stage_.assembler.CallOp(std::move(fix_up), Purpose::kFixUp,
                            absl::StrCat("fix up ", through_.NameOf(set)), std::move(operands),
                            stage_.plan.home_stream());
    through_.Write(set, slabs);
    through_.Guard(first, Scalar::kClipped);
  }

 private:
  const Stage& stage_;
  const State& state_;
  Slabs& slabs_;
  const ThroughSlabs through_;
  const Operand& scalars_;
};

}  // namespace

std::unique_ptr<Updates> MakeSpeculative(const Stage& stage, const State& state, Slabs& slabs,
                                         const Operand& scalars) {
  return std::make_unique<Speculative>(stage, state, slabs, scalars);
}

}  // namespace strata::program
