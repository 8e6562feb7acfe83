#include "model/saved_values.h"

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "model/families/families.h"

namespace strata::model {
namespace {

ModelSpec Spec() {
  ModelSpec spec;
  spec.layers = 1;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 264;
  spec.context = 32;
  return spec;
}

TEST(SavableValues, AreWhatABlocksForwardDeclaresWhenItSavesThemAll) {
  EmitOptions options;
  options.micro_batch = 2;
  options.sequence = 16;
  options.prefill_chunk = 0;
  options.recompute.save = NamesOfSavableValues(Family::kLlama);
  const auto graph = EmitFamily(Spec(), options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::map<std::string, int64_t> declared;  // bytes
  for (const program::Template& pass : graph->templates) {
    for (const program::Formal& formal : pass.formals) {
      if (formal.role == program::Role::kSaved) declared[formal.name] = formal.bytes;
    }
  }
  const std::vector<SavedValue> values = SavableValues(Spec());
  ASSERT_EQ(values.size(), declared.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].bytes * 2 * 16, declared.at(values[i].name)) << values[i].name;
    EXPECT_EQ(NamesOfSavableValues(Family::kLlama)[i], values[i].name);
  }
}

TEST(SavableValues, AllAreSavedByOneNameAndNothingIsReplayed) {
  EmitOptions options;
  options.prefill_chunk = 0;
  options.recompute.save = NamesOfSavableValues(Family::kLlama);
  const auto by_names = EmitFamily(Spec(), options);
  options.recompute.save = {kAllValues};
  const auto by_one = EmitFamily(Spec(), options);
  ASSERT_TRUE(by_one.ok()) << by_one.status();
  ASSERT_EQ(by_one->templates.size(), by_names->templates.size());
  for (size_t t = 0; t < by_one->templates.size(); ++t) {
    EXPECT_EQ(by_one->templates[t].formals.size(), by_names->templates[t].formals.size());
    EXPECT_EQ(by_one->templates[t].ops.size(), by_names->templates[t].ops.size());
    for (const program::Op& op : by_one->templates[t].ops) {
      EXPECT_NE(op.kind, program::OpKind::kRmsNormReplay);
    }
  }
}

TEST(SavableValues, AreThoseThatBackwardReads) {
  EXPECT_THAT(NamesOfSavableValues(Family::kLlama),
              testing::ElementsAre("norm1", "rstd1", "qkv", "attention", "log_sum_exp", "residual",
                                   "norm2", "rstd2", "gate_up", "activation"));
  std::map<std::string, SavedValue> values;
  for (const SavedValue& value : SavableValues(Spec(), 24)) values[value.name] = value;
  EXPECT_EQ(values["qkv"].bytes, (8 + 2 * 4) * 6 * 4);
  EXPECT_EQ(values["gate_up"].replay_flops, 2.0 * 200 * 48);
  EXPECT_EQ(values["attention"].replay_flops, 2.0 * 24 * 48);
  EXPECT_EQ(values["residual"].replay_flops, 2.0 * 48 * 48);
  EXPECT_EQ(values["activation"].replay_flops, 0);
  EXPECT_FALSE(values["norm2"].saved_by_default);
  EXPECT_TRUE(values["rstd2"].saved_by_default);
}

}  // namespace
}  // namespace strata::model
