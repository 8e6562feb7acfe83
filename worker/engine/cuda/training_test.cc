// Whole trainings on a CUDA device: as on the CPU, within rounding, and without a finding of the
// stand-in's checker.
#include <utility>

#include "device/standin/testing/cuda_test.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/cuda/training_testing.h"

namespace strata::worker {
namespace {

class TrainingTest : public standin::CudaTest {
 protected:
  // On the device as near as `tolerance`: a few steps in each order, all of them in one.
  void ExpectAsOnTheCpu(Training training, double tolerance) {
    constexpr int kFew = 2;
    const int all = std::exchange(training.steps, kFew);
    TrainingOutcome expected;
    Train(training, nullptr, 0, nullptr, expected);
    if (HasFatalFailure()) return;
    InEachOrder([&] { ExpectOnTheDevice(training, expected, tolerance); });
    if (HasFatalFailure()) return;
    training.steps = all;
    ExpectInOneOrder(training, tolerance);
  }

  void ExpectInOneOrder(const Training& training, double tolerance) {
    TrainingOutcome expected;
    Train(training, nullptr, 0, nullptr, expected);
    if (HasFatalFailure()) return;
    EXPECT_LT(expected.losses.back(), expected.losses.front());
    SetUp();
    ExpectOnTheDevice(training, expected, tolerance);
  }

 private:
  void ExpectOnTheDevice(const Training& training, const TrainingOutcome& expected,
                         double tolerance) {
    auto accelerator = CudaAccelerator::Create(0);
    ASSERT_TRUE(accelerator.ok()) << accelerator.status();
    TrainingOutcome outcome;
    Train(training, accelerator->get(), 0, nullptr, outcome);
    if (!HasFatalFailure()) ExpectNear(outcome, expected, tolerance);
  }
};

TEST_F(TrainingTest, Llama) { ExpectAsOnTheCpu(SmallTraining(), 1e-4); }

// Tensor cores ask for multiples of 8; weights have masters in f32.
TEST_F(TrainingTest, LlamaInBf16) {
  Training training = SmallTraining();
  training.spec.hidden = 32;
  training.spec.head_size = 8;
  training.spec.ffn = 48;
  training.spec.vocab = 32;
  training.emission.type = program::DType::kBF16;
  training.steps = 12;
  ExpectAsOnTheCpu(training, 0.02);
}

// Biases, layer norms, learned positions, GELU; the table is the head's, too.
TEST_F(TrainingTest, Gpt2) {
  Training training = SmallTraining();
  training.spec.family = model::Family::kGpt2;
  training.spec.kv_heads = training.spec.heads;
  training.spec.attention_bias = training.spec.output_bias = true;
  training.spec.feed_forward_bias = true;
  training.spec.activation = model::Activation::kGeluTanh;
  training.spec.tied_embeddings = true;
  training.steps = 10;
  ExpectAsOnTheCpu(training, 1e-4);
}

// Adapters alone train; more samples than a pass takes, so that gradients meet in the tree.
TEST_F(TrainingTest, LoraOfSeveralMicroBatches) {
  Training training = SmallTraining();
  training.emission.lora = {.rank = 2, .alpha = 4, .targets = {"all-linear"}};
  training.emission.micro_batch = 2;
  training.plan.virtual_shards = 4;
  training.steps = 8;
  ExpectAsOnTheCpu(training, 1e-4);
}

// Adapters beside frozen matrices: in units of NF4, whose scales are quantised too or are not, and
// in rows of 8 bits.
TEST_F(TrainingTest, QloraOfEveryKind) {
  using program::DType;
  for (const DType type : {DType::kNf4, DType::kNf4F32, DType::kInt8}) {
    SCOPED_TRACE(program::Name(type));
    Training training = SmallTraining();
    training.emission.lora = {.rank = 4, .alpha = 8, .targets = {"all-linear"}, .quantised = type};
    training.steps = 4;
    ExpectInOneOrder(training, 1e-4);
    if (HasFatalFailure()) return;
  }
}

// In bf16 matrices are dequantised to bf16, and adapters are narrower than a packet.
TEST_F(TrainingTest, QloraInBf16) {
  Training training = SmallTraining();
  training.spec.hidden = 32;
  training.spec.head_size = 8;
  training.spec.ffn = 48;
  training.spec.vocab = 32;
  training.emission.type = program::DType::kBF16;
  training.emission.lora = {
      .rank = 4, .alpha = 8, .targets = {"q_proj", "down_proj"}, .quantised = program::DType::kNf4};
  training.steps = 4;
  ExpectInOneOrder(training, 0.02);
}

// A step is made to overflow; then the scale grows until gradients overflow by themselves: what is
// applied is decided on the device, and the scale follows it.
TEST_F(TrainingTest, LlamaInF16WithLossScaling) {
  Training training = SmallTraining();
  training.spec.hidden = 32;
  training.spec.head_size = 8;
  training.spec.ffn = 48;
  training.spec.vocab = 32;
  training.emission.type = program::DType::kF16;
  training.loss_scale = {.value = 0x1p19, .growth_interval = 2};
  training.overflow_steps = {1};
  training.steps = 20;
  TrainingOutcome outcome;
  Train(training, nullptr, 0, nullptr, outcome);
  EXPECT_LT(outcome.losses.size(), 19);  // more than the one that is made to
  ExpectInOneOrder(training, 0.005);
}

// Gradients of some steps are infinite: the device decides, without the host, that their updates do
// not take place.
TEST_F(TrainingTest, StepsThatOverflowChangeNothing) {
  Training training = SmallTraining();
  training.overflow_steps = {1, 4, 5};
  training.steps = 9;
  ExpectAsOnTheCpu(training, 1e-4);
}

// State and updates on the host, layers streamed: lanes and queues wait for each other all along.
TEST_F(TrainingTest, WithTheHostAsATier) {
  Training training = SmallTraining();
  training.spec.layers = 4;
  training.plan.places = {{.host = 1}, {.host = 1}, {.host = 1}, {.host = 1}};
  training.overflow_steps = {3};
  training.steps = 8;
  ExpectAsOnTheCpu(training, 1e-4);
}

}  // namespace
}  // namespace strata::worker
