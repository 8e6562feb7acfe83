// Loss scaling against torch.amp.GradScaler, over 200 steps with three forced overflows:
// loss_scale.py made the expected values.
#include "model/optimizer/loss_scale.h"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/update_testing.h"
#include "kernels/elementwise.h"
#include "kernels/sgd.h"
#include "nlohmann/json.hpp"
#include "program/ir/scalars.h"
#include "worker/engine/finish_step.h"

namespace strata {
namespace {

using program::Scalar;

nlohmann::json Golden() {
  std::ifstream file("tests/parity/goldens/loss_scale.json");
  return nlohmann::json::parse(file);
}

std::vector<float> FloatsOf(const nlohmann::json& list) {
  std::vector<float> values;
  for (const nlohmann::json& value : list) {
    values.push_back(value.is_string() ? std::strtof(value.get<std::string>().c_str(), nullptr)
                                       : value.get<float>());
  }
  return values;
}

// Norm, clip factor and whether to apply, as the program of a step finds them.
class Step {
 public:
  Step(const std::vector<float>& gradient, double scale, double clip) {
    device::ThreadPool pool(1);
    std::vector<double> workspace(1);
    const double squares = kernels::SumSquares({&pool}, static_cast<int64_t>(gradient.size()),
                                               gradient.data(), workspace.data());
    const double loss = 0;
    at(Scalar::kInverseTokens) = scale;
    at(Scalar::kLossScale) = scale;
    worker::FinishStep({.rows = 1, .sets = 1, .clip = clip, .scaled = true}, &loss, &squares,
                       scalars_, scalars_);
  }
  double& at(Scalar scalar) { return scalars_[static_cast<int>(scalar)]; }

 private:
  double scalars_[program::kScalarCount] = {};
};

TEST(LossScale, FollowsGradScalerThroughOverflowsAndGrowth) {
  const nlohmann::json golden = Golden();
  const nlohmann::json& rates = golden["rates"];
  for (const nlohmann::json& run : golden["runs"]) {
    model::LossScale scale;
    scale.growth_interval = run["growth_interval"];
    const std::vector<float> start = FloatsOf(run["start"]);
    const auto size = static_cast<int64_t>(start.size());
    kernels::testing::OwnNumbers own(size, kernels::NumberType::kF32, kernels::MasterFormat::kNone,
                                     {kernels::MomentFormat::kF32});
    own.SetWeights(start);
    device::ThreadPool pool(1);
    int number = 0, skipped = 0;
    for (const nlohmann::json& expected : run["steps"]) {
      SCOPED_TRACE(++number);
      ASSERT_EQ(scale.value, expected["scale"].get<double>());
      const std::vector<float> gradient = FloatsOf(expected["gradient"]);
      Step step(gradient, scale.value, rates["clip"]);
      const bool applied = step.at(Scalar::kApply) != 0;
      if (applied) {
        EXPECT_NEAR(step.at(Scalar::kGradientNorm), expected["norm"].get<double>(),
                    1e-5 * expected["norm"].get<double>());
        own.SetGradient(gradient);
        kernels::Sgd({&pool}, 0, size,
                     {.learning_rate = rates["learning_rate"],
                      .momentum = rates["momentum"],
                      .weight_decay = rates["weight_decay"],
                      .grad_factor = step.at(Scalar::kClipFactor)},
                     own.numbers());
      }
      skipped += applied ? 0 : 1;
      kernels::testing::ExpectClose(own.Masters(),
                                    kernels::testing::Widen(FloatsOf(expected["weights"])), 1e-5);
      scale.Update(applied);
    }
    EXPECT_EQ(skipped, 3);
    EXPECT_EQ(scale.value, run["last_scale"].get<double>());
  }
}

}  // namespace
}  // namespace strata
