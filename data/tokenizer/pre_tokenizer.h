// How a normalized text is cut into words.
#ifndef STRATA_DATA_TOKENIZER_PRE_TOKENIZER_H_
#define STRATA_DATA_TOKENIZER_PRE_TOKENIZER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/normalizer.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/splitter.h"

namespace strata::data {

// What the pre-tokenizer and the decoder Metaspace have in common.
struct Metaspace {
  enum class Prepend { kAlways, kFirst, kNever };
  char32_t replacement = 0x2581;  // for a space
  Prepend prepend = Prepend::kAlways;
  bool split = true;

  static absl::StatusOr<Metaspace> FromJson(const Json& json);
};

class PreTokenizer {
 public:
  using WordSink = absl::FunctionRef<void(std::string_view word)>;

  PreTokenizer() = default;  // the whole text is one word
  // Of a file's "pre_tokenizer" (null: none). Unimplemented: a kind that is not supported.
  static absl::StatusOr<PreTokenizer> FromJson(const Json& json);

  // Whether the last thing done is to write bytes as byte characters. It can be left to whoever
  // takes the words, who then gets the bytes.
  bool ends_with_bytes() const;
  void LeaveBytes();
  // The only thing done, if that is to cut by a known pattern.
  std::optional<KnownPattern> only_pattern() const;

  // Calls `word` for each word from left to right. `texts` holds what words are made of.
  // ResourceExhausted: as Regex::FindAll.
  absl::Status Split(Piece piece, std::vector<std::string>* texts, WordSink word) const;

 private:
  enum class Kind {
    kPattern,         // divides by a pattern
    kKnownPattern,    // the same by a hand-written one
    kCharacters,      // divides by characters of a class
    kWords,           // runs of word characters and runs of others, without white space
    kPrefixSpace,     // puts a space before the text
    kByteCharacters,  // writes bytes as byte characters
    kMetaspace,       // writes spaces as another character
  };
  enum class CharacterClass { kNumeric, kPunctuation, kWhiteSpace, kDelimiter };
  enum class Behaviour { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
  struct Step {
    Kind kind = Kind::kPattern;
    Pattern pattern;
    KnownPattern known = KnownPattern::kGpt2;
    CharacterClass characters = CharacterClass::kNumeric;
    char32_t delimiter = 0;
    Behaviour behaviour = Behaviour::kIsolated;
    bool invert = false;
    Metaspace metaspace;
  };
  class Divider;

  absl::Status AddSteps(const Json& json);
  absl::Status AddByteLevel(const Json& json);
  absl::Status AddSplit(const Json& json);
  absl::Status AddMetaspace(const Json& json);
  absl::Status AddDigits(const Json& json);
  absl::Status AddCharacters(CharacterClass characters, Behaviour behaviour, char32_t delimiter);
  absl::Status Add(Step step);
  static absl::StatusOr<Behaviour> BehaviourOf(const Json& json, Behaviour otherwise);

  absl::Status Run(size_t index, Piece piece, std::vector<std::string>* texts, WordSink word) const;
  static absl::Status Divide(const Step& step, std::string_view text, Divider* divider);
  static void DivideByCharacters(const Step& step, std::string_view text, Divider* divider);
  static void DivideIntoWords(std::string_view text, Divider* divider);
  static bool Matches(const Step& step, char32_t code);
  static bool Rewrite(const Step& step, Piece piece, std::string* out);

  std::vector<Step> steps_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_PRE_TOKENIZER_H_
