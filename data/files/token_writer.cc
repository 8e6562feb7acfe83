#include "data/files/token_writer.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "data/files/document_ends.h"
#include "data/files/megatron_index.h"

namespace strata::data {
namespace {

constexpr int64_t kMostCounted = std::numeric_limits<int32_t>::max();  // by a 32-bit header word
constexpr int64_t kMostU16 = 65536;
constexpr int64_t kMostMegatronU16 = 65500;  // beyond it Megatron itself takes 32 bits

// The path without the endings of Megatron's pair.
std::string StemOf(const TokenFile& file) {
  absl::string_view stem = file.path;
  if (!absl::ConsumeSuffix(&stem, ".idx")) absl::ConsumeSuffix(&stem, ".bin");
  return std::string(stem);
}

// Where the tokens end up.
std::string DataPath(const TokenFile& file) {
  return file.format == TokenFormat::kMegatron ? StemOf(file) + ".bin" : file.path;
}
std::string TokensPartial(const TokenFile& file) { return DataPath(file) + ".partial"; }
std::string MaskPartial(const TokenFile& file) { return DataPath(file) + ".partial.mask"; }
std::string EndsPartial(const TokenFile& file) { return DataPath(file) + ".partial.documents"; }
std::string IndexPartial(const TokenFile& file) { return PathForJobs(file) + ".partial"; }

TokenType TypeFor(const TokenFile& file) {
  switch (file.format) {
    case TokenFormat::kLlmq:
      return TokenType::kI32;
    case TokenFormat::kU16:
      return TokenType::kU16;
    case TokenFormat::kLlmc:
      return file.vocabulary <= kMostU16 ? TokenType::kU16 : TokenType::kU32;
    case TokenFormat::kMegatron:
      break;
  }
  return file.vocabulary < kMostMegatronU16 ? TokenType::kU16 : TokenType::kI32;
}

int64_t FirstByte(TokenFormat format) {
  return format == TokenFormat::kLlmq || format == TokenFormat::kLlmc ? kHeaderBytes : 0;
}

absl::Status CheckFile(const TokenFile& file) {
  STRATA_CHECK(file.vocabulary > 0);
  if (file.vocabulary > kMostCounted) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path, ": a vocabulary of ", file.vocabulary, " is too large"));
  }
  if (file.format != TokenFormat::kU16) return absl::OkStatus();
  if (file.vocabulary > kMostU16) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path, ": 16 bits cannot hold the ", file.vocabulary,
                     " tokens of this vocabulary — use the format llmq, llmc or megatron"));
  }
  if (absl::EndsWith(file.path, ".bin")) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      file.path, ": raw 16-bit tokens are known by their name alone — let it end in .bin"));
}

template <typename T>
absl::Status AppendAs(absl::Span<const int32_t> tokens, OutputFile& out) {
  constexpr size_t kPiece = 4096;
  T piece[kPiece];
  for (size_t done = 0; done < tokens.size(); done += kPiece) {
    const size_t count = std::min(kPiece, tokens.size() - done);
    for (size_t i = 0; i < count; ++i) piece[i] = static_cast<T>(tokens[done + i]);
    RETURN_IF_ERROR(out.Append(piece, static_cast<int64_t>(count * sizeof(T))));
  }
  return absl::OkStatus();
}

// Calls `use` with each number of an array in `file`.
template <typename Use>
absl::Status ForEach(const OutputFile& file, int64_t offset, int64_t count, const Use& use) {
  std::vector<int64_t> piece;
  for (int64_t done = 0; done < count; done += static_cast<int64_t>(piece.size())) {
    piece.resize(static_cast<size_t>(std::min<int64_t>(8192, count - done)));
    RETURN_IF_ERROR(
        file.ReadAt(offset + 8 * done, static_cast<int64_t>(8 * piece.size()), piece.data()));
    for (const int64_t number : piece) RETURN_IF_ERROR(use(number));
  }
  return absl::OkStatus();
}

}  // namespace

std::string PathForJobs(const TokenFile& file) {
  return file.format == TokenFormat::kMegatron ? StemOf(file) + ".idx" : file.path;
}

TokenWriter::TokenWriter(const TokenFile& file, TokenType type, OutputFile tokens, OutputFile ends)
    : file_(file), type_(type), tokens_(std::move(tokens)), ends_(std::move(ends)) {}

absl::StatusOr<std::unique_ptr<TokenWriter>> TokenWriter::Open(const TokenFile& file,
                                                               Position position) {
  RETURN_IF_ERROR(CheckFile(file));
  const TokenType type = TypeFor(file);
  const bool anew = position.tokens == 0;
  const int64_t first = FirstByte(file.format);
  ASSIGN_OR_RETURN(
      OutputFile tokens,
      OutputFile::Open(TokensPartial(file), anew ? 0 : first + BytesOf(type) * position.tokens));
  ASSIGN_OR_RETURN(OutputFile ends,
                   OutputFile::Open(EndsPartial(file),
                                    anew ? 0 : kDocumentsHeaderBytes + 8 * position.documents));
  auto writer =
      std::unique_ptr<TokenWriter>(new TokenWriter(file, type, std::move(tokens), std::move(ends)));
  writer->position_ = position;
  if (anew) {
    RETURN_IF_ERROR(writer->tokens_.Skip(first));
    RETURN_IF_ERROR(writer->ends_.Skip(kDocumentsHeaderBytes));
  } else if (position.documents > 0) {
    RETURN_IF_ERROR(writer->ends_.ReadAt(kDocumentsHeaderBytes + 8 * (position.documents - 1), 8,
                                         &writer->document_begin_));
  }
  if (file.format != TokenFormat::kLlmq) return writer;
  ASSIGN_OR_RETURN(OutputFile mask,
                   OutputFile::Open(MaskPartial(file), anew ? 0 : position.tokens / 8));
  writer->mask_.emplace(std::move(mask));
  if (position.tokens % 8 != 0) {
    RETURN_IF_ERROR(writer->mask_->ReadAt(position.tokens / 8, 1, &writer->mask_byte_));
    writer->mask_byte_ &= static_cast<uint8_t>((1 << (position.tokens % 8)) - 1);
  }
  return writer;
}

void TokenWriter::Discard(const TokenFile& file) {
  for (const std::string& path :
       {TokensPartial(file), MaskPartial(file), EndsPartial(file), IndexPartial(file)}) {
    RemoveFile(path);
  }
}

absl::Status TokenWriter::CheckTokens(absl::Span<const int32_t> tokens,
                                      absl::Span<const uint8_t> trained) {
  const auto count = static_cast<int64_t>(tokens.size());
  const bool counted = file_.format == TokenFormat::kLlmq || file_.format == TokenFormat::kLlmc;
  if (counted && position_.tokens > kMostCounted - count) {
    return absl::InvalidArgumentError(absl::StrCat(
        file_.path, ": files of this format hold at most ", kMostCounted,
        " tokens — prepare parts of the input into files of their own, or use the format u16 or "
        "megatron"));
  }
  for (const int32_t token : tokens) {
    if (token >= 0 && token < file_.vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file_.path, ": token ", token, " is beyond the vocabulary of ", file_.vocabulary));
  }
  if (mask_.has_value()) return absl::OkStatus();
  if (std::find(trained.begin(), trained.end(), 0) == trained.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "only part of it is to be trained on, and files of this format have no mask that says "
      "which — use the format llmq");
}

absl::Status TokenWriter::AppendBits(absl::Span<const uint8_t> trained) {
  int64_t bit = position_.tokens % 8;
  for (const uint8_t one : trained) {
    if (one != 0) mask_byte_ |= static_cast<uint8_t>(1 << bit);
    if (++bit < 8) continue;
    RETURN_IF_ERROR(mask_->Append(&mask_byte_, 1));
    mask_byte_ = 0, bit = 0;
  }
  return absl::OkStatus();
}

absl::Status TokenWriter::Append(absl::Span<const int32_t> tokens,
                                 absl::Span<const uint8_t> trained) {
  STRATA_CHECK(tokens.size() == trained.size());
  RETURN_IF_ERROR(CheckTokens(tokens, trained));
  if (BytesOf(type_) == 2) {
    RETURN_IF_ERROR(AppendAs<uint16_t>(tokens, tokens_));
  } else {
    RETURN_IF_ERROR(AppendAs<int32_t>(tokens, tokens_));
  }
  if (mask_.has_value()) RETURN_IF_ERROR(AppendBits(trained));
  position_.tokens += static_cast<int64_t>(tokens.size());
  return absl::OkStatus();
}

absl::Status TokenWriter::EndDocument() {
  const int64_t length = document_tokens();
  STRATA_CHECK(length > 0);
  if (file_.format == TokenFormat::kMegatron && length > kMostCounted) {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path, ": a document of ", length,
                     " tokens is longer than Megatron's index can tell (", kMostCounted, ")"));
  }
  document_begin_ = position_.tokens;
  ++position_.documents;
  return ends_.Append(&position_.tokens, sizeof(position_.tokens));
}

absl::Status TokenWriter::Sync() {
  RETURN_IF_ERROR(tokens_.Sync());
  if (mask_.has_value()) {
    RETURN_IF_ERROR(mask_->Flush());
    if (position_.tokens % 8 != 0) {
      RETURN_IF_ERROR(mask_->WriteAt(mask_->size(), &mask_byte_, 1));
    }
    RETURN_IF_ERROR(mask_->Sync());
  }
  return ends_.Sync();
}

absl::Status TokenWriter::CopyMask() {
  if (position_.tokens % 8 != 0) RETURN_IF_ERROR(mask_->Append(&mask_byte_, 1));
  RETURN_IF_ERROR(mask_->Flush());
  std::vector<char> piece(size_t{1} << 20);
  for (int64_t done = 0; done < mask_->size();) {
    const int64_t count = std::min(mask_->size() - done, static_cast<int64_t>(piece.size()));
    RETURN_IF_ERROR(mask_->ReadAt(done, count, piece.data()));
    RETURN_IF_ERROR(tokens_.Append(piece.data(), count));
    done += count;
  }
  return absl::OkStatus();
}

absl::Status TokenWriter::WriteHeader() {
  std::vector<int32_t> header(kHeaderBytes / sizeof(int32_t));
  const auto tokens = static_cast<int32_t>(position_.tokens);
  if (file_.format == TokenFormat::kLlmq) {
    std::memcpy(header.data(), "BIN.TOK\n", 8);
    header[2] = 2, header[3] = 4, header[4] = tokens;
    header[5] = static_cast<int32_t>(file_.vocabulary);
    header[6] = 1;
  } else if (file_.format == TokenFormat::kLlmc) {
    const bool wide = type_ == TokenType::kU32;
    header[0] = static_cast<int32_t>(wide ? kLlmcMagicU32 : kLlmcMagicU16);
    header[1] = wide ? 7 : 1, header[2] = tokens;
  } else {
    return absl::OkStatus();
  }
  return tokens_.WriteAt(0, header.data(), kHeaderBytes);
}

// Of Megatron: every document is one sequence.
absl::Status TokenWriter::WriteIndex() {
  ASSIGN_OR_RETURN(OutputFile index, OutputFile::Open(IndexPartial(file_), 0));
  char header[kMegatronHeaderBytes] = {};
  std::memcpy(header, "MMIDIDX\0\0", 9);
  const int64_t version = 1, documents = position_.documents, boundaries = documents + 1;
  std::memcpy(header + 9, &version, sizeof(version));
  header[17] = static_cast<char>(MegatronCode(type_));
  std::memcpy(header + 18, &documents, sizeof(documents));
  std::memcpy(header + 26, &boundaries, sizeof(boundaries));
  RETURN_IF_ERROR(index.Append(header, sizeof(header)));
  int64_t last = 0;
  RETURN_IF_ERROR(ForEach(ends_, kDocumentsHeaderBytes, documents, [&](int64_t end) {
    const auto length = static_cast<int32_t>(end - last);
    last = end;
    return index.Append(&length, sizeof(length));
  }));
  int64_t begin = 0;
  RETURN_IF_ERROR(ForEach(ends_, kDocumentsHeaderBytes, documents, [&](int64_t end) {
    const int64_t pointer = begin * BytesOf(type_);
    begin = end;
    return index.Append(&pointer, sizeof(pointer));
  }));
  for (int64_t b = 0; b < boundaries; ++b) RETURN_IF_ERROR(index.Append(&b, sizeof(b)));
  return index.MoveTo(PathForJobs(file_));
}

absl::Status TokenWriter::Finish() {
  STRATA_CHECK(document_tokens() == 0);
  if (position_.tokens == 0) {
    return absl::InvalidArgumentError(absl::StrCat(file_.path, ": there are no tokens to write"));
  }
  if (mask_.has_value()) RETURN_IF_ERROR(CopyMask());
  RETURN_IF_ERROR(tokens_.Flush());
  RETURN_IF_ERROR(WriteHeader());
  RETURN_IF_ERROR(ends_.Flush());
  if (file_.format == TokenFormat::kMegatron) {
    RETURN_IF_ERROR(tokens_.MoveTo(DataPath(file_)));
    RETURN_IF_ERROR(WriteIndex());
    RemoveFile(EndsPartial(file_));
    return absl::OkStatus();
  }
  const auto header = DocumentsHeader(position_.documents, position_.tokens);
  RETURN_IF_ERROR(ends_.WriteAt(0, header.data(), kDocumentsHeaderBytes));
  RETURN_IF_ERROR(ends_.MoveTo(DocumentsPath(DataPath(file_))));
  RETURN_IF_ERROR(tokens_.MoveTo(DataPath(file_)));
  if (mask_.has_value()) RemoveFile(MaskPartial(file_));
  return absl::OkStatus();
}

}  // namespace strata::data
