// Byte pair encoding: words to tokens, as `tokenizers` does it.
#ifndef STRATA_DATA_TOKENIZER_BPE_H_
#define STRATA_DATA_TOKENIZER_BPE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer/merge_table.h"
#include "data/tokenizer/token_buffer.h"
#include "data/tokenizer/vocabulary.h"
#include "data/tokenizer/word_cache.h"

namespace strata::data {

// The model as a file describes it.
struct BpeSpec {
  Vocabulary vocabulary;
  std::vector<std::pair<std::string, std::string>> merges;  // first come, first merged
  std::optional<std::string> unk_token;
  std::string continuing_subword_prefix;  // of characters that do not begin a word
  std::string end_of_word_suffix;         // of the character that ends a word
  bool fuse_unk = false;                  // one unk_token for a run of unknown characters
  bool byte_fallback = false;  // unknown characters become tokens <0x00> to <0xFF> of their bytes
  bool ignore_merges = false;  // a word that is in the vocabulary is not taken apart
};

// Memory that one thread encodes with.
struct BpeScratch {
  WordCache cache;
  MergeScratch merge;
  std::vector<int32_t> symbols;
  std::string text;
  bool unk_missing = false;  // unk_token was needed, and is not in the vocabulary

  void Shrink();
};

class Bpe {
 public:
  // InvalidArgument: a merge of or to something that is not in the vocabulary.
  static absl::StatusOr<std::unique_ptr<const Bpe>> Make(BpeSpec spec);

  const Vocabulary& vocabulary() const { return spec_.vocabulary; }
  const std::optional<std::string>& unk_token() const { return spec_.unk_token; }

  // Whether the vocabulary has all characters that stand for bytes, so that words may be given as
  // the bytes themselves.
  bool takes_bytes() const { return takes_bytes_; }
  // Appends the tokens of a word given as its bytes, which stand for byte characters.
  void EncodeBytes(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const;
  // Appends the tokens of a word of UTF-8 characters; the word may be a whole text.
  void EncodeCharacters(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const;

 private:
  explicit Bpe(BpeSpec spec) : spec_(std::move(spec)) {}
  absl::Status AddMerges();
  void FindCharacters();

  void MergeBytes(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const;
  void MergeCharacters(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const;
  void AppendStretch(std::string_view stretch, BpeScratch* scratch, TokenBuffer* out) const;
  int32_t IdOf(std::string_view character) const;
  bool AppendFallback(std::string_view character, std::vector<int32_t>* symbols) const;
  bool MayCut(const char* begin, const char* at) const;

  BpeSpec spec_;
  MergeTable merges_;
  size_t longest_token_ = 0;  // bytes
  std::optional<int32_t> unk_;
  std::array<int32_t, 128> ascii_ids_;    // -1: not in the vocabulary
  std::array<int32_t, 256> byte_ids_;     // of the characters that stand for bytes
  std::array<int32_t, 256> byte_tokens_;  // <0x00> to <0xFF>
  bool plain_ = false;                    // neither prefix nor suffix
  bool takes_bytes_ = false;
  bool falls_back_ = false;  // every unknown character becomes bytes
  // A merge joins what ends with one character to what begins with another. Where no merge joins
  // two neighbours, a text can be cut between them without changing its tokens.
  bool cuts_ = false;
  absl::flat_hash_set<uint64_t> joints_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_BPE_H_
