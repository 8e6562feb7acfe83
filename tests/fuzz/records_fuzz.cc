// Records of JSONL, with a tokenizer that has a chat template.
#include <cstdint>
#include <memory>
#include <string>

#include "common/check.h"
#include "data/prepare/test_tokenizers.h"
#include "data/records/record_encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/scratch.h"

namespace strata::data {
namespace {

const RecordEncoder& Encoder() {
  static const RecordEncoder& encoder = *[] {
    const fuzz::Scratch scratch;
    const auto tokenizer =
        Tokenizer::Load(WriteTestTokenizer(scratch.Path("tokenizer"), TestSplit::kLlama3));
    STRATA_CHECK(tokenizer.ok());
    auto encoder = RecordEncoder::Create(*tokenizer);
    STRATA_CHECK(encoder.ok());
    return encoder->release();
  }();
  return encoder;
}

}  // namespace
}  // namespace strata::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  strata::data::EncodedDocument document;
  const std::string json(reinterpret_cast<const char*>(data), size);
  if (!strata::data::Encoder().Encode(json, &document).ok()) return 0;
  STRATA_CHECK(document.tokens.size() == document.trained.size());
  return 0;
}
