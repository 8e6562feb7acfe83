// From a piece of an input to tokens.
#ifndef STRATA_DATA_PREPARE_PIECE_ENCODER_H_
#define STRATA_DATA_PREPARE_PIECE_ENCODER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/prepare/document_reader.h"
#include "data/prepare/encode_pool.h"
#include "data/prepare/line_cuts.h"
#include "data/records/record_encoder.h"
#include "data/tokenizer/tokenizer.h"

namespace strata::data {

// Immutable; any number of threads may use it at once.
class PieceEncoder {
 public:
  // `cuts`: how parts of texts were cut. `records`: there will be lines of JSONL. `date`: what chat
  // templates are told it is, in seconds since 1970.
  static absl::StatusOr<std::unique_ptr<const PieceEncoder>> Create(
      std::shared_ptr<const Tokenizer> tokenizer, LineCuts cuts, bool records, int64_t date);

  // The end-of-text token is part of a document that has one, where it ends.
  EncodedPiece Encode(const Piece& piece) const;

 private:
  PieceEncoder(std::shared_ptr<const Tokenizer> tokenizer,
               std::unique_ptr<const RecordEncoder> records)
      : tokenizer_(std::move(tokenizer)), records_(std::move(records)) {}
  absl::Status EncodeText(const Piece& piece, std::vector<int32_t>* tokens) const;

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const std::unique_ptr<const RecordEncoder> records_;
  // What stands before parts of texts while they are encoded, and its tokens.
  std::string before_;
  std::vector<int32_t> tokens_before_;
};

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_PIECE_ENCODER_H_
