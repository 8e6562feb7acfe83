// Tokens of words met before. Each word has one place, where the latest one stays: bounded, and
// without any bookkeeping. For one thread at a time.
#ifndef STRATA_DATA_TOKENIZER_WORD_CACHE_H_
#define STRATA_DATA_TOKENIZER_WORD_CACHE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "data/tokenizer/token_buffer.h"

namespace strata::data {

// Words of at most kBytes bytes and kTokens tokens in 2^kBits places.
template <size_t kBytes, size_t kTokens, int kBits>
class WordTable {
 public:
  struct Entry {
    uint8_t bytes = 0;  // 0: empty
    uint8_t tokens = 0;
    char word[kBytes];
    int32_t token[kTokens];
  };

  static bool Fits(std::string_view word) { return !word.empty() && word.size() <= kBytes; }

  WordTable() : entries_(size_t{1} << kBits) {}

  // The place of a word that fits.
  Entry* Find(std::string_view word) {
    const uint64_t hash = XXH3_64bits(word.data(), word.size());
    return &entries_[hash >> (64 - kBits)];
  }
  static bool Holds(const Entry& entry, std::string_view word) {
    return entry.bytes == word.size() && std::memcmp(entry.word, word.data(), word.size()) == 0;
  }
  static void CopyTokens(const Entry& entry, TokenBuffer* out) {
    std::memcpy(out->Room(kTokens), entry.token, sizeof(entry.token));
    out->Grow(entry.tokens);
  }
  static void Put(std::string_view word, const int32_t* tokens, size_t count, Entry* entry) {
    if (count > kTokens) return;
    entry->bytes = static_cast<uint8_t>(word.size());
    entry->tokens = static_cast<uint8_t>(count);
    std::memcpy(entry->word, word.data(), word.size());
    std::copy_n(tokens, count, entry->token);  // of none there is no address
  }

 private:
  std::vector<Entry> entries_;
};

class WordCache {
 public:
  // Appends the tokens of `word`: those kept, or those that encode() appends, which are then kept.
  template <typename Encode>
  void Append(std::string_view word, TokenBuffer* out, const Encode& encode) {
    if (Short::Fits(word)) {
      AppendFrom(&short_, word, out, encode);
    } else if (Long::Fits(word)) {
      AppendFrom(&long_, word, out, encode);
    } else {
      encode();
    }
  }

 private:
  using Short = WordTable<22, 10, 15>;  // 2 MiB in entries of a cache line
  using Long = WordTable<94, 40, 12>;   // 1 MiB

  template <typename Table, typename Encode>
  static void AppendFrom(Table* table, std::string_view word, TokenBuffer* out,
                         const Encode& encode) {
    typename Table::Entry* const entry = table->Find(word);
    if (Table::Holds(*entry, word)) {
      Table::CopyTokens(*entry, out);
      return;
    }
    const size_t before = out->size();
    encode();
    Table::Put(word, out->data() + before, out->size() - before, entry);
  }

  Short short_;
  Long long_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_WORD_CACHE_H_
