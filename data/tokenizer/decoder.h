// Tokens' texts back to text: the decoder of a tokenizer file.
#ifndef STRATA_DATA_TOKENIZER_DECODER_H_
#define STRATA_DATA_TOKENIZER_DECODER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/tokenizer/json.h"
#include "data/tokenizer/pattern.h"
#include "data/tokenizer/pre_tokenizer.h"

namespace strata::data {

class DecoderRun;

// Immutable.
class Decoder {
 public:
  Decoder() = default;  // tokens' texts with spaces between them
  // Of a file's "decoder" (null: none). Unimplemented: a kind that is not supported.
  static absl::StatusOr<Decoder> FromJson(const Json& json);
  // Of tokens whose texts are the bytes themselves.
  static Decoder Bytes();

 private:
  friend class DecoderRun;
  enum class Kind {
    kJoin,          // with spaces between
    kBytes,         // texts are bytes
    kByteLevel,     // texts are of byte characters
    kByteFallback,  // <0x00> to <0xFF> are bytes
    kFuse,          // one text from here on
    kReplace,
    kStrip,
    kMetaspace,
    kSuffix,  // that ends a word becomes a space
  };
  struct Step {
    Kind kind = Kind::kJoin;
    Pattern pattern;
    std::string content;
    char32_t character = ' ';  // that is stripped
    int64_t start = 0, stop = 0;
    Metaspace metaspace;
    // The texts that come are pieces of one text, in the eyes of `tokenizers`.
    bool pieces = false;
  };

  absl::Status AddSteps(const Json& json);
  absl::Status Add(Step step);

  std::vector<Step> steps_;
  double growth_ = 1;  // how many times longer replacements can make a token, at most
};

// One decoding, token by token. The decoder must outlive it.
class DecoderRun {
 public:
  explicit DecoderRun(const Decoder& decoder);

  // Appends to `out` the text that is certain with the next token.
  void Add(std::string_view token, std::string* out);
  // Appends the rest. Nothing may be added afterwards.
  void Finish(std::string* out);

 private:
  struct State {
    std::string held;      // what later texts may change
    int64_t texts = 0;     // how many have come
    int64_t stripped = 0;  // characters taken off the start
    bool started = false;  // nothing more is taken off there
  };

  void Pass(size_t index, std::string_view text, std::string* out);
  void Drain(size_t index, std::string* out);
  void PassBytes(size_t index, std::string* out);
  void PassFallback(size_t index, std::string_view text, std::string* out);
  void DrainFallback(size_t index, std::string* out);
  void PassStrip(size_t index, std::string_view text, std::string* out);
  void PassSuffix(size_t index, std::string_view text, std::string* out);

  const Decoder& decoder_;
  std::vector<State> states_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_TOKENIZER_DECODER_H_
