// Which tokens of an encoded text cover given parts of it.
#ifndef STRATA_DATA_RECORDS_TOKEN_SPANS_H_
#define STRATA_DATA_RECORDS_TOKEN_SPANS_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "data/records/jinja/interpreter.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {

// Immutable; any number of threads may use it at once.
class TokenSpans {
 public:
  explicit TokenSpans(std::shared_ptr<const Tokenizer> tokenizer);

  // `tokens` is `text` encoded. Sets covered[i] to 1 for every token that holds any byte of one of
  // `parts` (ascending, disjoint, at borders of characters), to 0 for the others. InvalidArgument:
  // the tokens do not spell the text (a tokenizer that rewrites it), so that this cannot be told.
  absl::Status Mark(std::string_view text, absl::Span<const int32_t> tokens,
                    absl::Span<const jinja::Span> parts, std::vector<uint8_t>* covered) const;

 private:
  enum class Style { kBytes, kByteLevel, kSentencePiece };

  // How many bytes of text[at…] the token spells; -1: it does not stand there.
  int64_t Match(int32_t token, std::string_view text, size_t at) const;
  // The place of each token in `text`, which may be in a normal form of what was encoded.
  bool Place(std::string_view text, absl::Span<const int32_t> tokens,
             std::vector<jinja::Span>* places) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  Style style_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_RECORDS_TOKEN_SPANS_H_
