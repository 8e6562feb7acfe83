#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/tokenizer/parts.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

constexpr int32_t kBytes = 256;

// The texts of the 256 bytes, one after another.
const std::string& AllBytes() {
  static const std::string& bytes = *[] {
    auto* text = new std::string;
    for (int byte = 0; byte < kBytes; ++byte) text->push_back(static_cast<char>(byte));
    return text;
  }();
  return bytes;
}

// The encoding of one text.
class Encoding {
 public:
  Encoding(const TokenizerParts& parts, EncodeScratch* scratch)
      : parts_(parts), scratch_(*scratch), pattern_(parts.pre_tokenizer.only_pattern()) {}

  absl::Status Run(std::string_view text) {
    parts_.in_text.Split(text, [&](std::string_view piece, int32_t id) {
      if (id >= 0) return scratch_.tokens.Add(id);
      AddPiece({piece, piece.data() == text.data()});
    });
    if (status_.ok() && scratch_.bpe.unk_missing) {
      return absl::InvalidArgumentError(
          absl::StrCat("the text has a character that the tokenizer does not know, and its "
                       "unk_token \"",
                       *parts_.bpe->unk_token(), "\" is not in its vocabulary"));
    }
    return status_;
  }

 private:
  void AddPiece(Piece piece) {
    if (!status_.ok()) return;
    if (!parts_.normalizer.empty()) {
      status_ = parts_.normalizer.Apply(&piece, &scratch_.one, &scratch_.other);
      if (!status_.ok()) return;
    }
    parts_.in_normalized.Split(piece.text, [&](std::string_view part, int32_t id) {
      if (id >= 0) return scratch_.tokens.Add(id);
      AddWords({part, piece.is_start && part.data() == piece.text.data()});
    });
  }

  void AddWords(Piece piece) {
    if (!status_.ok()) return;
    if (pattern_.has_value() && parts_.words_are_bytes) {
      const char* const end = piece.text.data() + piece.text.size();
      for (const char* at = piece.text.data(); at < end;) {
        const char* const next = EndOfMatch(*pattern_, at, end);
        AddBytes({at, static_cast<size_t>(next - at)});
        at = next;
      }
      return;
    }
    status_ = parts_.pre_tokenizer.Split(piece, &scratch_.texts, [&](std::string_view word) {
      if (word.empty()) return;
      if (parts_.words_are_bytes) return AddBytes(word);
      parts_.bpe->EncodeCharacters(word, &scratch_.bpe, &scratch_.tokens);
    });
  }

  void AddBytes(std::string_view word) {
    parts_.bpe->EncodeBytes(word, &scratch_.bpe, &scratch_.tokens);
  }

  const TokenizerParts& parts_;
  EncodeScratch& scratch_;
  const std::optional<KnownPattern> pattern_;
  absl::Status status_;
};

}  // namespace

void EncodeScratch::Shrink() {
  constexpr size_t kKept = size_t{1} << 18;
  bpe.Shrink();
  bpe.unk_missing = false;
  tokens.clear();
  tokens.Shrink(kKept);
  const auto shrink = [](std::string* text) {
    if (text->capacity() > kKept) std::string().swap(*text);
  };
  shrink(&one);
  shrink(&other);
  for (std::string& text : texts) shrink(&text);
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<const TokenizerParts> parts, LoadParts(path));
  return std::make_shared<const Tokenizer>(std::move(parts));
}

std::shared_ptr<const Tokenizer> Tokenizer::Bytes() {
  auto parts = std::make_unique<TokenizerParts>();
  parts->decoder = Decoder::Bytes();
  return std::make_shared<const Tokenizer>(std::move(parts));
}

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

absl::Status Tokenizer::Encode(std::string_view text, std::vector<int32_t>* tokens) const {
  if (parts_->bpe == nullptr) {
    tokens->reserve(tokens->size() + text.size());
    for (const char byte : text) tokens->push_back(static_cast<unsigned char>(byte));
    return absl::OkStatus();
  }
  if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("a text of ", text.size(),
                                                   " bytes: fewer than 2^31 can be encoded at "
                                                   "once"));
  }
  if (const size_t bad = FindInvalidUtf8(text); bad != std::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("the text is not UTF-8 at byte ", bad));
  }
  std::unique_ptr<EncodeScratch> scratch = parts_->scratch.Take();
  const absl::Status status = Encoding(*parts_, scratch.get()).Run(text);
  if (status.ok()) {
    const int32_t* const encoded = scratch->tokens.data();
    tokens->insert(tokens->end(), encoded, encoded + scratch->tokens.size());
  }
  parts_->scratch.Give(std::move(scratch));
  return status;
}

std::string Tokenizer::Decode(absl::Span<const int32_t> tokens, bool skip_special) const {
  std::string text;
  DecoderRun run(parts_->decoder);
  for (const int32_t token : tokens) {
    const std::optional<std::string_view> decoded = Decoded(token, skip_special);
    if (decoded.has_value()) run.Add(*decoded, &text);
  }
  run.Finish(&text);
  return text;
}

int64_t Tokenizer::vocabulary() const {
  if (parts_->bpe == nullptr) return kBytes;
  return std::max(parts_->bpe->vocabulary().end(), parts_->added.end());
}

std::optional<int32_t> Tokenizer::Find(std::string_view token) const {
  if (parts_->bpe != nullptr) return parts_->Find(token);
  if (token.size() != 1) return std::nullopt;
  return static_cast<unsigned char>(token[0]);
}

std::string_view Tokenizer::Text(int32_t id) const {
  if (parts_->bpe == nullptr) {
    if (id < 0 || id >= kBytes) return {};
    return std::string_view(AllBytes()).substr(static_cast<size_t>(id), 1);
  }
  const AddedToken* const added = parts_->added.Get(id);
  return added != nullptr ? std::string_view(added->content) : parts_->bpe->vocabulary().Text(id);
}

bool Tokenizer::Has(int32_t id) const {
  if (parts_->bpe == nullptr) return id >= 0 && id < kBytes;
  return parts_->added.Get(id) != nullptr || parts_->bpe->vocabulary().Has(id);
}

std::optional<std::string_view> Tokenizer::Decoded(int32_t id, bool skip_special) const {
  if (!Has(id)) return std::nullopt;
  const AddedToken* const added = parts_->added.Get(id);
  if (added == nullptr) return Text(id);
  if (skip_special && added->skipped) return std::nullopt;
  return added->decoded;
}

bool Tokenizer::IsSpecial(int32_t id) const {
  if (parts_->bpe == nullptr) return false;
  const AddedToken* const added = parts_->added.Get(id);
  return added != nullptr && added->special;
}

std::optional<int32_t> Tokenizer::end_of_text() const { return parts_->end_of_text; }
const std::vector<int32_t>& Tokenizer::end_of_generation() const {
  return parts_->end_of_generation;
}
const std::vector<int32_t>& Tokenizer::text_start() const { return parts_->text_start; }
const std::string& Tokenizer::chat_template() const { return parts_->chat_template; }
const std::string& Tokenizer::bos_token() const { return parts_->bos_token; }
const std::string& Tokenizer::eos_token() const { return parts_->eos_token; }
const std::string& Tokenizer::unk_token() const { return parts_->unk_token; }
const std::string& Tokenizer::pad_token() const { return parts_->pad_token; }

StreamDecoder::StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)),
      skip_special_(skip_special),
      run_(std::make_unique<DecoderRun>(tokenizer_->parts_->decoder)) {}
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::Add(int32_t token) {
  std::string text;
  const std::optional<std::string_view> decoded = tokenizer_->Decoded(token, skip_special_);
  if (decoded.has_value()) run_->Add(*decoded, &text);
  return text;
}

std::string StreamDecoder::Finish() {
  std::string text;
  run_->Finish(&text);
  return text;
}

}  // namespace strata::data
