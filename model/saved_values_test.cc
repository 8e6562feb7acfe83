#include "model/saved_values.h"

#include <gtest/gtest.h>

#include <map>

#include "model/families/llama.h"

namespace strata::model {
namespace {

TEST(SavableValues, AreWhatABlocksForwardDeclares) {
  ModelSpec spec;
  spec.layers = 1;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 264;
  spec.context = 32;
  EmitOptions options;
  options.micro_batch = 2;
  options.sequence = 16;
  options.prefill_chunk = 0;
  const auto graph = EmitLlama(spec, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::map<int, int64_t> declared;  // bytes by index
  for (const program::Template& pass : graph->templates) {
    for (const program::Formal& formal : pass.formals) {
      if (formal.role == program::Role::kSaved) declared[formal.index] = formal.bytes;
    }
  }
  const std::vector<SavedValue> values = SavableValues(spec);
  ASSERT_EQ(values.size(), declared.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].bytes * 2 * 16, declared.at(static_cast<int>(i))) << values[i].name;
    EXPECT_EQ(NamesOfSavableValues()[i], values[i].name);
  }
}

}  // namespace
}  // namespace strata::model
