// Which gradients of whole models still begin with zeros.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "model/optimizer/adamw.h"
#include "program/compose/composer.h"
#include "program/readers/verify.h"

namespace strata {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

model::ModelSpec Spec(model::Family family, bool tied) {
  return {.family = family,
          .layers = 2,
          .hidden = 64,
          .heads = 4,
          .kv_heads = 2,
          .head_size = 16,
          .ffn = 160,
          .vocab = 256,
          .context = 64,
          .tied_embeddings = tied,
          .attention_bias = family == model::Family::kQwen2};
}

// The slots that are filled with zeros, or bytes of them, in a step of one micro-batch.
std::vector<std::string> Filled(const model::ModelSpec& spec, const model::EmitOptions& changes) {
  model::EmitOptions options = changes;
  options.type = program::DType::kBF16;
  options.sequence = 64;
  options.prefill_chunk = 0;
  options.head_chunk_rows = 16;
  auto graph = model::EmitFamily(spec, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const program::Plan plan{.global_batch = 1, .gradient_clip = 1, .tier = program::Tier::kDevice};
  const auto built =
      program::Compose(*std::move(graph), plan,
                       [](const program::ParameterSet& set, const program::UpdateRange& range) {
                         return model::EmitAdamW(set, {}, model::NumberFormats{}, range);
                       });
  EXPECT_TRUE(built.ok()) << built.status();
  if (!built.ok()) return {};
  const program::ProgramSet& set = built->front().set;
  const absl::Status status = program::Verify({&set}, "train", {.sizes = set.groups});
  EXPECT_TRUE(status.ok()) << status;
  const program::Program& train = *set.find("train");
  std::vector<std::string> filled;
  for (const program::Instruction& instruction : train.instructions) {
    if (!absl::StartsWith(instruction.label, "zero gradient")) continue;
    const program::Operand& operand = instruction.operands[0];
    const program::Slot& slot = set.slot(train, operand.slot);
    filled.push_back(operand.bytes == slot.bytes ? slot.name
                                                 : absl::StrCat(operand.bytes, " of ", slot.name));
  }
  return filled;
}

TEST(FirstProductsTest, OfMatrices_OnlyTheTableOfALookupBeginsWithZeros) {
  EXPECT_THAT(Filled(Spec(model::Family::kLlama, /*tied=*/false), {}),
              UnorderedElementsAre("gradient of vectors", "gradient of embedding"));
}

TEST(FirstProductsTest, TiedTable_IsWrittenByTheHeadsFirstRows) {
  EXPECT_THAT(Filled(Spec(model::Family::kLlama, /*tied=*/true), {}),
              UnorderedElementsAre("gradient of vectors"));
}

TEST(FirstProductsTest, BiasesBetweenMatrices_AreAllOfTheirSetThatBeginsWithZeros) {
  const int64_t biases = 4 * (4 + 2 * 2) * 16;  // queries, keys and values, f32
  EXPECT_THAT(
      Filled(Spec(model::Family::kQwen2, /*tied=*/true), {}),
      UnorderedElementsAre("gradient of vectors", absl::StrCat(biases, " of gradient of layers.0"),
                           absl::StrCat(biases, " of gradient of layers.1")));
}

TEST(FirstProductsTest, Adapters_AreWritten) {
  model::EmitOptions options;
  options.lora = {8, 16, {"all-linear"}, std::nullopt};
  EXPECT_THAT(Filled(Spec(model::Family::kLlama, /*tied=*/false), options), IsEmpty());
}

}  // namespace
}  // namespace strata
