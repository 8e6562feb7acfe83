// The templates of every kind of layer as text, for each way they are cut: what any other way of
// making them must reproduce, or improve on with a reason.
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "model/families/families.h"
#include "program/readers/dump.h"
#include "program/testing/golden.h"

namespace strata::model {
namespace {

constexpr char kStem[] = "tests/programs/goldens/llama_templates_";

ModelSpec GoldenSpec(bool tied) {
  ModelSpec spec;
  spec.layers = 2;
  spec.hidden = 48;
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.head_size = 6;
  spec.ffn = 100;
  spec.vocab = 264;
  spec.context = 64;
  spec.tied_embeddings = tied;
  return spec;
}

std::string TextOf(bool tied, int64_t degree, int64_t chunks, int64_t head_chunk_rows) {
  EmitOptions options;
  options.micro_batch = 2;
  options.sequence = 32;
  options.prefill_chunk = 8;
  options.tensor_degree = degree;
  options.tensor_chunks = chunks;
  options.head_chunk_rows = head_chunk_rows;
  options.split_backward = true;
  const absl::StatusOr<program::LayerGraph> graph = EmitFamily(GoldenSpec(tied), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  std::string text;
  for (const program::Template& tmpl : graph->templates) {
    absl::StrAppend(&text, program::DumpTemplate(tmpl));
    for (const program::Formal& formal : tmpl.formals) {
      absl::StrAppend(&text, "  formal ", program::Name(formal.role), " ", formal.index, " ",
                      formal.bytes, " ", formal.name, "\n");
    }
  }
  return text;
}

TEST(TemplateGoldensTest, Llama_EveryWayOfCutting_GivesTheStoredText) {
  for (const int64_t degree : {1, 2, 4}) {
    for (const int64_t chunks : {1, 4}) {
      if (degree == 1 && chunks > 1) continue;  // chunks are of collectives
      const std::string path = absl::StrCat(kStem, "t", degree, "_c", chunks);
      EXPECT_EQ(
          program::CompareWithGolden(absl::StrCat(path, ".txt"), TextOf(false, degree, chunks, 0)),
          "");
    }
  }
  EXPECT_EQ(program::CompareWithGolden(absl::StrCat(kStem, "tied_head_chunks.txt"),
                                       TextOf(true, 1, 1, 16)),
            "");
}

}  // namespace
}  // namespace strata::model
