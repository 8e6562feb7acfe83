#include "data/prepare/piece_encoder.h"

#include <algorithm>
#include <ctime>

#include "common/check.h"
#include "common/status_macros.h"

namespace strata::data {

absl::StatusOr<std::unique_ptr<const PieceEncoder>> PieceEncoder::Create(
    std::shared_ptr<const Tokenizer> tokenizer, LineCuts cuts, bool records, int64_t date) {
  std::unique_ptr<const RecordEncoder> encoder;
  if (records) {
    RecordOptions options;
    const time_t seconds = date;
    options.date.emplace();
    gmtime_r(&seconds, &*options.date);
    ASSIGN_OR_RETURN(encoder, RecordEncoder::Create(tokenizer, options));
  }
  auto made =
      std::unique_ptr<PieceEncoder>(new PieceEncoder(std::move(tokenizer), std::move(encoder)));
  if (cuts == LineCuts::kBehindNewline) made->before_.push_back('\n');
  RETURN_IF_ERROR(made->tokenizer_->Encode(made->before_, &made->tokens_before_));
  return made;
}

absl::Status PieceEncoder::EncodeText(const Piece& piece, std::vector<int32_t>* tokens) const {
  if (piece.begins_document || before_.empty()) return tokenizer_->Encode(piece.bytes, tokens);
  RETURN_IF_ERROR(tokenizer_->Encode(before_ + piece.bytes, tokens));
  const auto count = static_cast<int64_t>(tokens_before_.size());
  // As line_cuts.h promises.
  STRATA_CHECK(static_cast<int64_t>(tokens->size()) > count &&
               std::equal(tokens_before_.begin(), tokens_before_.end(), tokens->begin()));
  tokens->erase(tokens->begin(), tokens->begin() + count);
  return absl::OkStatus();
}

EncodedPiece PieceEncoder::Encode(const Piece& piece) const {
  EncodedPiece encoded;
  encoded.line = piece.line;
  encoded.ends_document = piece.ends_document;
  EncodedDocument& document = encoded.document;
  if (piece.line > 0) {
    encoded.status = records_->Encode(piece.bytes, &document);
  } else {
    encoded.status = EncodeText(piece, &document.tokens);
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
