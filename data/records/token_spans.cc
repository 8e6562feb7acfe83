#include "data/records/token_spans.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "data/records/jinja/text.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"

namespace strata::data {
namespace {

using jinja::Span;

constexpr std::string_view kMark = "\xE2\x96\x81";  // ▁, a space to SentencePiece

bool StandsAt(std::string_view what, std::string_view text, size_t at) {
  return text.substr(at, what.size()) == what;
}

// The byte of a fallback token such as "<0x0A>".
std::optional<char> FallbackByte(std::string_view token) {
  static constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(token[3]), low = kDigits.find(token[4]);
  if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

// How many bytes at text[at…] the piece spells, each mark being a space or itself; -1: none.
int64_t MatchPiece(std::string_view piece, std::string_view text, size_t at) {
  size_t to = at;
  for (size_t i = 0; i < piece.size();) {
    if (StandsAt(kMark, piece, i)) {
      if (StandsAt(" ", text, to)) {
        to += 1;
      } else if (StandsAt(kMark, text, to)) {
        to += kMark.size();
      } else {
        return -1;
      }
      i += kMark.size();
    } else {
      if (to >= text.size() || text[to] != piece[i]) return -1;
      ++i;
      ++to;
    }
  }
  return static_cast<int64_t>(to - at);
}

size_t Blanks(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  return rest.size() - jinja::Strip(rest, std::nullopt, true, false).size();
}

// The borders of `parts` in the text's normal form, which comes back in `normal`. False: a border
// falls inside of what is composed.
bool Normalize(std::string_view text, absl::Span<const Span> parts, std::string* normal,
               std::vector<Span>* moved) {
  size_t at = 0;
  const auto append_to = [&](size_t border) {
    AppendNormalized(text.substr(at, border - at), NormalForm::kNfc, normal);
    at = border;
    return normal->size();
  };
  for (const Span& part : parts) {
    const size_t begin = append_to(part.begin);
    moved->push_back({begin, append_to(part.end)});
  }
  append_to(text.size());
  std::string whole;
  AppendNormalized(text, NormalForm::kNfc, &whole);
  return whole == *normal;
}

// Both ascending, so one pass.
void Cover(const std::vector<Span>& places, absl::Span<const Span> parts,
           std::vector<uint8_t>* covered) {
  size_t part = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    // What spells nothing (a space that the tokenizer puts in front) goes with what follows.
    const Span place{places[i].begin, std::max(places[i].end, places[i].begin + 1)};
    while (part < parts.size() && parts[part].end <= place.begin) ++part;
    (*covered)[i] = part < parts.size() && parts[part].begin < place.end ? 1 : 0;
  }
}

}  // namespace

TokenSpans::TokenSpans(std::shared_ptr<const Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)) {
  // SentencePiece vocabularies hold the mark, byte-level ones cannot; these hold the space's
  // character, single bytes do not.
  style_ = tokenizer_->Find(kMark)        ? Style::kSentencePiece
           : tokenizer_->Find("\xC4\xA0") ? Style::kByteLevel
                                          : Style::kBytes;
}

int64_t TokenSpans::Match(int32_t token, std::string_view text, size_t at) const {
  const std::string_view literal = tokenizer_->Text(token);
  const auto match_exactly = [&](std::string_view bytes) {
    return !bytes.empty() && StandsAt(bytes, text, at) ? static_cast<int64_t>(bytes.size()) : -1;
  };
  if (style_ == Style::kBytes) {
    return text[at] == static_cast<char>(token) && token >= 0 && token < 256 ? 1 : -1;
  }
  if (literal.empty()) return -1;
  if (tokenizer_->IsSpecial(token)) return match_exactly(literal);
  if (style_ == Style::kByteLevel) {
    std::string bytes;
    AppendBytesOf(literal, &bytes);
    const int64_t size = match_exactly(bytes);
    return size >= 0 ? size : match_exactly(literal);  // an added token
  }
  if (const std::optional<char> byte = FallbackByte(literal)) {
    if (text[at] == *byte) return 1;
  }
  const int64_t size = MatchPiece(literal, text, at);
  if (size >= 0 || !StandsAt(kMark, literal, 0)) return size;
  return MatchPiece(literal.substr(kMark.size()), text, at);  // the mark was put in front
}

bool TokenSpans::Place(std::string_view text, absl::Span<const int32_t> tokens,
                       std::vector<Span>* places) const {
  places->clear();
  places->reserve(tokens.size());
  size_t at = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    int64_t size = at < text.size() ? Match(tokens[i], text, at) : -1;
    if (size < 0 && at < text.size()) {
      // Some special tokens take the white space around them along.
      const bool special =
          tokenizer_->IsSpecial(tokens[i]) || (i > 0 && tokenizer_->IsSpecial(tokens[i - 1]));
      const size_t blanks = special ? Blanks(text, at) : 0;
      if (blanks == 0 || at + blanks >= text.size()) return false;
      at += blanks;
      size = Match(tokens[i], text, at);
    }
    if (size < 0) return false;
    const size_t end = at + static_cast<size_t>(size);
    places->push_back({at, end});
    at = end;
  }
  if (at < text.size() && !tokens.empty() && tokenizer_->IsSpecial(tokens.back())) {
    at += Blanks(text, at);
  }
  return at == text.size();
}

absl::Status TokenSpans::Mark(std::string_view text, absl::Span<const int32_t> tokens,
                              absl::Span<const Span> parts, std::vector<uint8_t>* covered) const {
  covered->assign(tokens.size(), 0);
  std::vector<Span> places;
  if (Place(text, tokens, &places)) {
    Cover(places, parts, covered);
    return absl::OkStatus();
  }
  std::string normal;
  std::vector<Span> moved;
  if (Normalize(text, parts, &normal, &moved) && Place(normal, tokens, &places)) {
    Cover(places, moved, covered);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "which tokens are trained cannot be told: the tokenizer rewrites this text");
}

}  // namespace strata::data
