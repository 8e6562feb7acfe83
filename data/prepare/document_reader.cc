#include "data/prepare/document_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "data/prepare/line_cuts.h"

namespace strata::data {
namespace {

constexpr size_t kReadBytes = size_t{256} << 10;
constexpr size_t kTextPieceBytes = size_t{256} << 10;

bool IsBlank(absl::string_view line) {
  return std::all_of(line.begin(), line.end(), absl::ascii_isspace);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DocumentReader>> DocumentReader::Open(const std::string& path,
                                                                     Cuts cuts,
                                                                     const ReaderPosition& at) {
  ASSIGN_OR_RETURN(std::unique_ptr<InputStream> stream, InputStream::Open(path));
  auto reader = std::unique_ptr<DocumentReader>(new DocumentReader(path, cuts, std::move(stream)));
  RETURN_IF_ERROR(reader->SkipTo(at));
  return reader;
}

absl::Status DocumentReader::SkipTo(const ReaderPosition& at) {
  while (position_.offset < at.offset) {
    RETURN_IF_ERROR(Fill(1));
    const size_t held = buffer_.size() - begin_;
    if (held == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends before byte ", at.offset, ": it has become shorter"));
    }
    const size_t count = std::min(held, static_cast<size_t>(at.offset - position_.offset));
    begin_ += count;
    position_.offset += static_cast<int64_t>(count);
  }
  position_ = at;
  return absl::OkStatus();
}

absl::Status DocumentReader::Fill(size_t size) {
  while (!ended_ && buffer_.size() - begin_ < size) {
    buffer_.erase(0, begin_);
    begin_ = 0;
    const size_t held = buffer_.size();
    buffer_.resize(held + kReadBytes);
    ASSIGN_OR_RETURN(const int64_t got,
                     stream_->Read(buffer_.data() + held, static_cast<int64_t>(kReadBytes)));
    buffer_.resize(held + static_cast<size_t>(got));
    ended_ = got == 0;
  }
  return absl::OkStatus();
}

std::string DocumentReader::Take(size_t size) {
  std::string taken = buffer_.substr(begin_, size);
  begin_ += size;
  position_.offset += static_cast<int64_t>(size);
  return taken;
}

absl::StatusOr<std::optional<Piece>> DocumentReader::NextLine() {
  for (;;) {
    size_t searched = 0, newline = std::string::npos;
    for (;;) {
      newline = buffer_.find('\n', begin_ + searched);
      if (newline != std::string::npos) break;
      searched = buffer_.size() - begin_;
      if (searched > static_cast<size_t>(kMostLineBytes)) break;
      RETURN_IF_ERROR(Fill(searched + 1));
      if (buffer_.size() - begin_ == searched) break;
    }
    const size_t held = buffer_.size() - begin_;
    const size_t length = newline == std::string::npos ? held : newline - begin_;
    if (length > static_cast<size_t>(kMostLineBytes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ":", position_.line + 1, ": is longer than ",
                       common::FormatBytes(kMostLineBytes), " — JSONL has one record a line"));
    }
    if (held == 0) return std::optional<Piece>();
    Piece piece;
    piece.line = ++position_.line;
    piece.bytes = Take(length);
    if (newline != std::string::npos) Take(1);
    if (IsBlank(piece.bytes)) continue;
    ++position_.documents;
    return std::optional<Piece>(std::move(piece));
  }
}

// Of the bytes held, the most that may be a piece; 0: none.
size_t DocumentReader::CutOf(size_t target) const {
  const absl::string_view held = absl::string_view(buffer_).substr(begin_);
  if (cuts_ == Cuts::kAnywhere) return target;
  return cuts_ == Cuts::kSafely ? LastLineCut(held) : 0;
}

absl::StatusOr<std::optional<Piece>> DocumentReader::NextText() {
  for (size_t target = kTextPieceBytes;; target *= 2) {
    RETURN_IF_ERROR(Fill(target + 1));  // what follows a piece shows that it does not end the text
    const size_t held = buffer_.size() - begin_;
    if (held == 0) return std::optional<Piece>();
    if (held > target && held > static_cast<size_t>(kMostWholeTextBytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path_, ": is longer than ", common::FormatBytes(kMostWholeTextBytes),
          ", and its tokens would be others if it were cut (a text is one document, and this "
          "tokenizer must see it whole, or no line of it ends where it may be cut) — make it JSONL "
          "with a record {\"text\": …} for each document"));
    }
    const size_t cut = held > target ? CutOf(target) : held;
    if (cut == 0) continue;
    Piece piece;
    piece.begins_document = position_.offset == 0;
    piece.ends_document = cut == held && held <= target;
    piece.bytes = Take(cut);
    if (piece.ends_document) ++position_.documents;
    return std::optional<Piece>(std::move(piece));
  }
}

absl::StatusOr<std::optional<Piece>> DocumentReader::Next() {
  return cuts_ == Cuts::kLines ? NextLine() : NextText();
}

}  // namespace strata::data
