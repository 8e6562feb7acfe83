#include "data/prepare/piece_encoder.h"

#include <algorithm>
#include <ctime>

#include "common/status_macros.h"

namespace strata::data {

absl::StatusOr<std::unique_ptr<const PieceEncoder>> PieceEncoder::Create(
    std::shared_ptr<const Tokenizer> tokenizer, bool records, int64_t date) {
  std::unique_ptr<const RecordEncoder> encoder;
  if (records) {
    RecordOptions options;
    const time_t seconds = date;
    options.date.emplace();
    gmtime_r(&seconds, &*options.date);
    ASSIGN_OR_RETURN(encoder, RecordEncoder::Create(tokenizer, options));
  }
  return std::unique_ptr<const PieceEncoder>(
      new PieceEncoder(std::move(tokenizer), std::move(encoder)));
}

EncodedPiece PieceEncoder::Encode(const Piece& piece) const {
  EncodedPiece encoded;
  encoded.line = piece.line;
  encoded.ends_document = piece.ends_document;
  EncodedDocument& document = encoded.document;
  if (piece.line > 0) {
    encoded.status = records_->Encode(piece.bytes, &document);
  } else {
    encoded.status = tokenizer_->Encode(piece.bytes, &document.tokens);
    document.trained.assign(document.tokens.size(), 1);
    document.ends_with_text_end = piece.ends_document;
  }
  if (!encoded.status.ok()) return encoded;
  if (document.ends_with_text_end && tokenizer_->end_of_text().has_value()) {
    document.tokens.push_back(*tokenizer_->end_of_text());
    document.trained.push_back(1);
  }
  const bool trains =
      std::find(document.trained.begin(), document.trained.end(), 1) != document.trained.end();
  if (piece.line > 0 && !trains) {
    encoded.status = absl::InvalidArgumentError("there is nothing in it to train on");
  }
  return encoded;
}

}  // namespace strata::data
