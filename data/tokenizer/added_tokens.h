// Tokens that are found in the text itself, before anything is cut into words: special ones and
// others.
#ifndef STRATA_DATA_TOKENIZER_ADDED_TOKENS_H_
#define STRATA_DATA_TOKENIZER_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "data/tokenizer/vocabulary.h"

namespace strata::data {

struct AddedToken {
  std::string content;
  bool single_word = false;  // not where a word character is next to it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space behind it
  bool normalized = true;    // looked for, normalized, in normalized text
  bool special = false;
  int32_t id = -1;
};

// Finds tokens in texts: of those that begin leftmost the longest.
class TokenFinder {
 public:
  // `text` is what is looked for; of equal ones the first counts. Not empty, at most kLongest.
  static constexpr size_t kLongest = 1024;
  void Add(std::string_view text, const AddedToken& token);

  // Calls `piece` for each piece of UTF-8 text from left to right: a token's id, or what is between
  // tokens (-1). Pieces are not empty; a text without tokens is one piece.
  void Split(std::string_view text,
             absl::FunctionRef<void(std::string_view piece, int32_t id)> piece) const;

 private:
  struct Node {
    int32_t token = -1;  // in tokens_: what ends here
  };

  struct Found {
    size_t end = 0;
    int32_t token = -1;  // -1: none
  };
  Found LongestAt(std::string_view text, size_t begin) const;
  size_t NextStart(std::string_view text, size_t begin) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_ = {Node()};
  absl::flat_hash_map<uint64_t, int32_t> children_;  // by node and byte
  std::array<int32_t, 256> roots_ = {};              // the root's children; 0: none
  int first_bytes_ = 0;                              // how many it has
  char only_first_byte_ = 0;                         // where it has one
};

// All added tokens of a file.
class AddedTokens {
 public:
  // Takes over tokens in the order of the file. A token that the model's vocabulary has keeps its
  // id; others get the next free one, as `tokenizers` counts, whatever the file says.
  // InvalidArgument: a content is there twice; Unimplemented: one is very long.
  absl::Status Add(std::vector<AddedToken> tokens, const Vocabulary& model);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  std::optional<int32_t> Find(std::string_view content) const;
  // Null: there is none with this id.
  const AddedToken* Get(int32_t id) const;
  // 1 + the largest id.
  int64_t end() const { return end_; }

 private:
  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<std::string, size_t> by_content_;
  absl::flat_hash_map<int32_t, size_t> by_id_;
  int64_t end_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_ADDED_TOKENS_H_
