// Chat templates, rendered for a conversation with everything in it.
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/check.h"
#include "data/prepare/test_tokenizers.h"
#include "data/records/record_encoder.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/fuzz/scratch.h"

namespace {

constexpr char kConversation[] = R"({"messages": [
  {"role": "system", "content": "s"}, {"role": "user", "content": "é ü"},
  {"role": "assistant", "content": "<think>t</think>a", "tool_calls": [
    {"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
  {"role": "tool", "content": "r"}, {"role": "assistant", "content": "done "}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const strata::fuzz::Scratch scratch;
  static const std::string& folder = *new std::string(strata::data::WriteTestTokenizer(
      scratch.Path("tokenizer"), strata::data::TestSplit::kLlama3));
  const nlohmann::json config = {
      {"chat_template", std::string(reinterpret_cast<const char*>(data), size)}};
  const std::string text = config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  scratch.Write("tokenizer/tokenizer_config.json", text.data(), text.size());
  const auto tokenizer = strata::data::Tokenizer::Load(folder);
  STRATA_CHECK(tokenizer.ok());
  const auto encoder = strata::data::RecordEncoder::Create(*tokenizer);
  if (!encoder.ok()) return 0;
  strata::data::EncodedDocument document;
  if (!(*encoder)->Encode(kConversation, &document).ok()) return 0;
  STRATA_CHECK(document.tokens.size() == document.trained.size());
  return 0;
}
