// What a tokenizer consists of once it is loaded.
#ifndef STRATA_DATA_TOKENIZER_PARTS_H_
#define STRATA_DATA_TOKENIZER_PARTS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/token_buffer.h"

namespace strata::data {

// Memory that one thread encodes a text with: a cache of words, and texts and lists in the making.
struct EncodeScratch {
  BpeScratch bpe;
  std::string one, other;
  std::vector<std::string> texts;
  TokenBuffer tokens;

  // Gives back what only a long text needs.
  void Shrink();
};

// Scratch memory from text to text: as many as there have been texts at once.
class ScratchPool {
 public:
  std::unique_ptr<EncodeScratch> Take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<EncodeScratch> scratch = std::move(free_.back());
        free_.pop_back();
        return scratch;
      }
    }
    return std::make_unique<EncodeScratch>();
  }
  void Give(std::unique_ptr<EncodeScratch> scratch) {
    scratch->Shrink();
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeScratch>> free_;
};

struct TokenizerParts {
  // Null: tokens are bytes, and what is below but for `decoder` is unused.
  std::unique_ptr<const Bpe> bpe;
  AddedTokens added;
  TokenFinder in_text;        // the added tokens that are looked for before normalizing
  TokenFinder in_normalized;  // and after it
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  bool words_are_bytes = false;  // which stand for byte characters
  Decoder decoder;

  std::string bos_token, eos_token, unk_token, pad_token;
  std::string chat_template;
  std::vector<int32_t> text_start;
  std::optional<int32_t> end_of_text;
  std::vector<int32_t> end_of_generation;

  mutable ScratchPool scratch;

  std::optional<int32_t> Find(std::string_view token) const {
    const std::optional<int32_t> id = added.Find(token);
    return id.has_value() ? id : bpe->vocabulary().Find(token);
  }
};

// As Tokenizer::Load.
absl::StatusOr<std::unique_ptr<const TokenizerParts>> LoadParts(const std::string& path);

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_PARTS_H_
