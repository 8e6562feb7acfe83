// Tokens' texts and ids, both ways.
#ifndef STRATA_DATA_TOKENIZER_VOCABULARY_H_
#define STRATA_DATA_TOKENIZER_VOCABULARY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace strata::data {

class Vocabulary {
 public:
  // Ids are below this: what a hostile file can make us allocate stays small.
  static constexpr int64_t kMostIds = int64_t{1} << 22;

  // InvalidArgument: the id is out of range, or the id or the text is there already. Invalidates
  // all views that Text() gave.
  absl::Status Add(std::string_view text, int64_t id);

  std::optional<int32_t> Find(std::string_view text) const;
  // Empty if there is no such token.
  std::string_view Text(int32_t id) const;
  bool Has(int32_t id) const;
  // How many tokens there are, and 1 + the largest id.
  size_t size() const { return size_; }
  int64_t end() const { return static_cast<int64_t>(tokens_.size()); }

 private:
  struct Token {
    uint64_t begin = kAbsent;  // in texts_
    uint32_t size = 0;
  };
  static constexpr uint64_t kAbsent = ~uint64_t{0};

  size_t PlaceOf(std::string_view text) const;
  void Rehash();

  std::string texts_;
  std::vector<Token> tokens_;    // by id
  std::vector<int32_t> places_;  // ids by hash of their text, open addressing; -1: empty
  size_t size_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_VOCABULARY_H_
