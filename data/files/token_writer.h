// Writes a token file, in memory that does not grow with it, and so that it can be gone on with
// after a crash.
//
// The tokens grow in OUT.partial, masks and ends of documents beside it; Finish puts the parts
// together and gives them their final names, the one that jobs name last. The same tokens always
// make the same bytes.
#ifndef STRATA_DATA_FILES_TOKEN_WRITER_H_
#define STRATA_DATA_FILES_TOKEN_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "data/files/output_file.h"
#include "data/files/token_layout.h"

namespace strata::data {

enum class TokenFormat {
  kLlmq,      // version 2 with a mask; the only one that can mark tokens as not to be trained on
  kU16,       // raw 16-bit tokens, named *.bin
  kLlmc,      // 16-bit tokens where the vocabulary allows it, else 32-bit ones
  kMegatron,  // NAME.idx and NAME.bin; jobs name the .idx
};

struct TokenFile {
  std::string path;  // kMegatron: NAME, NAME.idx or NAME.bin
  TokenFormat format = TokenFormat::kLlmq;
  int64_t vocabulary = 0;  // tokens are below it
};

// What jobs name: the path, of Megatron's files that of the index.
std::string PathForJobs(const TokenFile& file);

class TokenWriter {
 public:
  struct Position {
    int64_t tokens = 0;
    int64_t documents = 0;
  };

  // Begins anew, or goes on at a position that an earlier attempt has synced. InvalidArgument: the
  // format cannot hold such a vocabulary, or the path has no proper name for it; DataLoss: what the
  // earlier attempt wrote is not there any more; otherwise errors of OutputFile.
  static absl::StatusOr<std::unique_ptr<TokenWriter>> Open(const TokenFile& file,
                                                           Position position);
  // Removes what an attempt has left, but not a finished file.
  static void Discard(const TokenFile& file);

  Position position() const { return position_; }
  // Of the current document, so far.
  int64_t document_tokens() const { return position_.tokens - document_begin_; }

  // Tokens of the current document. `trained`, one for each: 0 for those that are no target.
  // FailedPrecondition: some are, and the format has no mask; InvalidArgument: a token beyond the
  // vocabulary, or more tokens than the format can hold.
  absl::Status Append(absl::Span<const int32_t> tokens, absl::Span<const uint8_t> trained);
  // Ends the current document. To be called when it has at least one token.
  absl::Status EndDocument();
  // All up to position() survives a crash.
  absl::Status Sync();
  // Nothing may be done after it. InvalidArgument: there are no tokens.
  absl::Status Finish();

 private:
  TokenWriter(const TokenFile& file, TokenType type, OutputFile tokens, OutputFile ends);

  absl::Status CheckTokens(absl::Span<const int32_t> tokens, absl::Span<const uint8_t> trained);
  absl::Status AppendBits(absl::Span<const uint8_t> trained);
  absl::Status CopyMask();
  absl::Status WriteHeader();
  absl::Status WriteIndex();

  const TokenFile file_;
  const TokenType type_;
  OutputFile tokens_;
  OutputFile ends_;
  std::optional<OutputFile> mask_;
  uint8_t mask_byte_ = 0;  // bits of the last byte, which is not full
  Position position_;
  int64_t document_begin_ = 0;
};

}  // namespace strata::data

#endif  // STRATA_DATA_FILES_TOKEN_WRITER_H_
