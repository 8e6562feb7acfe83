// Where a long text may be cut so that its parts, encoded each on its own, give the tokens of the
// whole.
#ifndef STRATA_DATA_PREPARE_LINE_CUTS_H_
#define STRATA_DATA_PREPARE_LINE_CUTS_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::data {

// Whether the tokenizer at `path` (a folder or a tokenizer.json) never makes a token across a
// single newline between two characters that are no white space, nor lets what follows the newline
// change what precedes it. So it is for byte-level BPE with the splits of GPT-2, Llama 3 and Qwen:
// each of their patterns matches such a newline alone or as the end of a match that began before
// it, whatever follows, and none looks back. Not where added tokens hold newlines or take white
// space before them, or the text is normalized otherwise than by NFC (which leaves newlines alone).
absl::StatusOr<bool> CutsAtLines(const std::string& path);

// The last such place in `text`: the number of bytes before it, its newline included. 0: none.
size_t LastLineCut(absl::string_view text);

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_LINE_CUTS_H_
