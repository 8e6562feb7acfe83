// Where a long text may be cut so that its parts, encoded each on its own, give the tokens of the
// whole.
#ifndef STRATA_DATA_PREPARE_LINE_CUTS_H_
#define STRATA_DATA_PREPARE_LINE_CUTS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {

// A place to cut is behind a single newline between two characters that are no white space.
enum class LineCuts {
  kNone,           // texts must be encoded whole
  kPlain,          // parts are encoded as they are
  kBehindNewline,  // parts but the first behind a newline, whose tokens are then left out
};

// What holds for the tokenizer loaded from `path` (a folder or a tokenizer.json), proven for two
// kinds, none of whose added tokens go on after a newline or take white space before them:
//
// Byte-level BPE with the splits of GPT-2, Llama 3 and Qwen, where texts are normalized by NFC at
// most, which leaves newlines alone: each of these patterns matches such a newline alone or as the
// end of a match that began before it, whatever follows, and none looks back.
//
// BPE over whole texts with byte fallback (Llama 2, Mistral, Gemma), where normalizing only turns
// spaces into their symbol and may put one first: merging across the newline would need a token
// that goes on behind a newline, and there is none. What is put first, the newline keeps away.
absl::StatusOr<LineCuts> LineCutsOf(const std::string& path, const Tokenizer& tokenizer);

// The last such place in `text`: the number of bytes before it, its newline included. 0: none.
size_t LastLineCut(absl::string_view text);

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_LINE_CUTS_H_
