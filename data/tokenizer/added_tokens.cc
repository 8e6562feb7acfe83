#include "data/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

uint64_t EdgeOf(int32_t node, char byte) {
  return uint64_t{static_cast<uint32_t>(node)} << 8 | static_cast<unsigned char>(byte);
}

bool EndsWithWord(std::string_view text) {
  if (text.empty()) return false;
  return IsWordCharacter(DecodeBefore(text.data(), text.data() + text.size()).code);
}

bool StartsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(DecodeAt(text.data()).code);
}

// Where the white space begins that ends at `end`, but not before `least`.
size_t SpaceBefore(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    const Character c = DecodeBefore(text.data(), text.data() + end);
    if (!IsWhiteSpace(c.code)) break;
    end -= c.size;
  }
  return end;
}

size_t SpaceAfter(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    const Character c = DecodeAt(text.data() + begin);
    if (!IsWhiteSpace(c.code)) break;
    begin += c.size;
  }
  return begin;
}

}  // namespace

bool TokenFinder::Add(std::string_view text, const AddedToken& token) {
  int32_t node = 0;
  for (const char byte : text) {
    const auto next = static_cast<int32_t>(nodes_.size());
    const auto [edge, added] = children_.try_emplace(EdgeOf(node, byte), next);
    if (added) nodes_.emplace_back();
    if (added && node == 0) {
      roots_[static_cast<unsigned char>(byte)] = next;
      only_first_byte_ = byte;
      ++first_bytes_;
    }
    node = edge->second;
  }
  int32_t& ending = nodes_[static_cast<size_t>(node)].token;
  if (ending >= 0) return false;
  ending = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
  return true;
}

TokenFinder::Found TokenFinder::LongestAt(std::string_view text, size_t begin) const {
  Found found;
  int32_t node = roots_[static_cast<unsigned char>(text[begin])];
  for (size_t at = begin + 1; node != 0; ++at) {
    const int32_t token = nodes_[static_cast<size_t>(node)].token;
    if (token >= 0) found = {at, token};
    if (at == text.size()) break;
    const auto edge = children_.find(EdgeOf(node, text[at]));
    if (edge == children_.end()) break;
    node = edge->second;
  }
  return found;
}

// Where a token may begin, at `begin` or behind it.
size_t TokenFinder::NextStart(std::string_view text, size_t begin) const {
  if (first_bytes_ == 0) return text.size();
  if (first_bytes_ == 1) {
    const void* const found =
        std::memchr(text.data() + begin, only_first_byte_, text.size() - begin);
    if (found == nullptr) return text.size();
    return static_cast<size_t>(static_cast<const char*>(found) - text.data());
  }
  while (begin < text.size() && roots_[static_cast<unsigned char>(text[begin])] == 0) ++begin;
  return begin;
}

void TokenFinder::Split(std::string_view text,
                        absl::FunctionRef<void(std::string_view piece, int32_t id)> piece) const {
  size_t done = 0;  // all before is told
  size_t at = 0;
  while ((at = NextStart(text, at)) < text.size()) {
    const Found found = LongestAt(text, at);
    if (found.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<size_t>(found.token)];
    size_t begin = at, end = found.end;
    at = end;
    if (token.single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) {
      continue;
    }
    // White space that the token before has taken is not taken again.
    if (token.lstrip) begin = std::max(done, SpaceBefore(text, std::min(done, begin), begin));
    if (token.rstrip) end = SpaceAfter(text, end);
    if (done < begin) piece(text.substr(done, begin - done), -1);
    // A token may begin with white space that the one before it has taken, too; it counts unless it
    // gives that up.
    if (begin < end) piece(text.substr(begin, end - begin), token.id);
    done = end;
  }
  if (done < text.size()) piece(text.substr(done), -1);
}

absl::Status AddedTokens::Add(std::vector<AddedToken> tokens, const Vocabulary& model) {
  const auto size = static_cast<int64_t>(model.size());
  for (AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    const auto quoted = [&] {
      return absl::StrCat("added token \"", absl::Utf8SafeCHexEscape(token.content.substr(0, 100)),
                          "\"");
    };
    if (token.content.size() > TokenFinder::kLongest) {
      return absl::UnimplementedError(
          absl::StrCat(quoted(), "… is longer than ", TokenFinder::kLongest, " bytes"));
    }
    if (!by_content_.try_emplace(token.content, tokens_.size()).second) {
      return absl::InvalidArgumentError(absl::StrCat(quoted(), " is there twice"));
    }
    const std::optional<int32_t> known = model.Find(token.content);
    const int64_t id = known.has_value() ? *known : std::max(end_, size);
    if (id >= Vocabulary::kMostIds) {
      return absl::InvalidArgumentError(absl::StrCat(quoted(), " would get the id ", id));
    }
    token.id = static_cast<int32_t>(id);
    end_ = std::max(end_, id + 1);
    by_id_[token.id] = tokens_.size();
    tokens_.push_back(std::move(token));
  }
  return absl::OkStatus();
}

void AddedTokens::SetDecoded(std::vector<std::string> texts) {
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const auto same = by_content_.find(texts[i]);
    tokens_[i].skipped = same != by_content_.end() && tokens_[same->second].special;
    tokens_[i].decoded = std::move(texts[i]);
  }
}

std::optional<int32_t> AddedTokens::Find(std::string_view content) const {
  const auto found = by_content_.find(std::string(content));
  if (found == by_content_.end()) return std::nullopt;
  return tokens_[found->second].id;
}

const AddedToken* AddedTokens::Get(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace strata::data
