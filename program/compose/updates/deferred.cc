#include "absl/strings/str_cat.h"
#include "program/compose/updates/updates.h"

namespace strata::program {
namespace {

class Deferred final : public Updates {
 public:
  Deferred(const Stage& stage, const State& state, const Operand& scalars)
      : stage_(stage), state_(state), scalars_(scalars) {}

  void AtGradient(int, const Operand&) override {}

  // Where ranks update parts of parameters that are whole, they gather them.
  void AtEnd(int set, const Operand& gradient) override {
    const SetPlan& plan = stage_.sets.sets[set];
    const bool publishes = plan.state_parts > 1 && plan.parameter_parts == 1;
    const int64_t bytes = stage_.SetOf(plan).bytes();
    const Group group = stage_.plan.shard_group();
    const Operand part = publishes ? stage_.OwnPart(group, state_.slot(set), bytes)
                                   : state_.InRange(set, state_.Held(set, State::kParameters, 0));
    state_.CallUpdate(set, gradient, scalars_, [&](int of, int version) {
      Operand operand = of == State::kParameters ? part : state_.Held(set, of, version);
      operand.version = version;
      return operand;
    });
    stage_.assembler.last().predicate = Predicate{Scalar::kApply};
    if (!publishes) return;
    Operand own = part, whole = Whole(state_.slot(set), bytes);
    own.version = whole.version = 1;
    stage_.assembler.Collective(
        {.op = CollectiveOp::kAllGather, .group = group, .bytes = own.bytes}, Purpose::kGather,
        Stream::kParameters, absl::StrCat("gather ", stage_.SetOf(plan).name), own, whole,
        stage_.plan.scratch);
  }

 private:
  const Stage& stage_;
  const State& state_;
  const Operand& scalars_;
};

}  // namespace

std::unique_ptr<Updates> MakeDeferred(const Stage& stage, const State& state,
                                      const Operand& scalars) {
  return std::make_unique<Deferred>(stage, state, scalars);
}

}  // namespace strata::program
