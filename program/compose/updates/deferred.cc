#include "program/compose/updates/updates.h"

namespace strata::program {
namespace {

class Deferred final : public Updates {
 public:
  explicit Deferred(SetUpdate& update) : update_(update) {}

  void AtGradient(int, const Operand&) override {}

  void AtEnd(int set, const Operand& gradient) override {
    update_.Run(set, gradient, Scalar::kApply);
    update_.Publish(set);
  }

 private:
  SetUpdate& update_;
};

}  // namespace

std::unique_ptr<Updates> MakeDeferred(SetUpdate& update) {
  return std::make_unique<Deferred>(update);
}

}  // namespace strata::program
