// tokenizer.json: whatever loads must encode and decode.
#include <cstdint>
#include <string>
#include <vector>

#include "common/check.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/scratch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const strata::fuzz::Scratch scratch;
  const auto tokenizer = strata::data::Tokenizer::Load(scratch.Write("tokenizer.json", data, size));
  if (!tokenizer.ok()) return 0;
  for (const char* text :
       {"", "the theory of Ä <|endoftext|>\n\n  123 'll x", "\xf0\x9f\x99\x82", "\xff"}) {
    std::vector<int32_t> tokens;
    if (!(*tokenizer)->Encode(text, &tokens).ok()) {
      STRATA_CHECK(tokens.empty());
      continue;
    }
    for (const int32_t token : tokens) {
      STRATA_CHECK(token >= 0 && token < (*tokenizer)->vocabulary());
    }
    (*tokenizer)->Decode(tokens, false);
    strata::data::StreamDecoder decoder(*tokenizer, true);
    for (const int32_t token : tokens) decoder.Add(token);
    decoder.Finish();
  }
  return 0;
}
