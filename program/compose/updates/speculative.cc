#include "program/compose/updates/updates.h"

namespace strata::program {
namespace {

class Speculative final : public Updates {
 public:
  Speculative(SetUpdate& update, bool clips) : update_(update), clips_(clips) {}

  void AtGradient(int set, const Operand& gradient) override { update_.Run(set, gradient); }

  void AtEnd(int set, const Operand&) override {
    if (clips_) {
      const size_t first = update_.next_instruction();
      update_.FixUp(set);
      update_.Guard(first, Scalar::kClipped);
    }
    update_.Publish(set);
  }

 private:
  SetUpdate& update_;
  const bool clips_;
};

}  // namespace

std::unique_ptr<Updates> MakeSpeculative(SetUpdate& update, bool clips) {
  return std::make_unique<Speculative>(update, clips);
}

}  // namespace strata::program
