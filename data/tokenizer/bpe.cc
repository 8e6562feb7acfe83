#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

// What SentencePiece writes for a space: where words begin.
constexpr std::string_view kWordMark = "\xE2\x96\x81";

// Stretches from word mark to word mark are cut further when they are longer: short ones are kept
// whole, as words that come again.
constexpr size_t kLongStretch = 40;

uint64_t JointOf(char32_t left, char32_t right) { return uint64_t{left} << 32 | right; }

}  // namespace

void BpeScratch::Shrink() {
  constexpr size_t kKept = size_t{1} << 16;
  merge.Shrink();
  if (symbols.capacity() > kKept) std::vector<int32_t>().swap(symbols);
  if (text.capacity() > kKept) std::string().swap(text);
}

absl::StatusOr<std::unique_ptr<const Bpe>> Bpe::Make(BpeSpec spec) {
  std::unique_ptr<Bpe> bpe(new Bpe(std::move(spec)));
  const Vocabulary& vocabulary = bpe->spec_.vocabulary;
  for (int32_t id = 0; id < vocabulary.end(); ++id) {
    bpe->longest_token_ = std::max(bpe->longest_token_, vocabulary.Text(id).size());
  }
  if (bpe->spec_.unk_token.has_value()) bpe->unk_ = vocabulary.Find(*bpe->spec_.unk_token);
  bpe->plain_ =
      bpe->spec_.continuing_subword_prefix.empty() && bpe->spec_.end_of_word_suffix.empty();
  bpe->FindCharacters();
  RETURN_IF_ERROR(bpe->AddMerges());
  bpe->spec_.merges = {};
  return bpe;
}

void Bpe::FindCharacters() {
  const auto find = [&](std::string_view text) { return spec_.vocabulary.Find(text).value_or(-1); };
  takes_bytes_ = plain_;
  falls_back_ = spec_.byte_fallback;
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_ids_[byte] = find(Utf8(CharactersOfBytes()[byte]));
    byte_tokens_[byte] = find(absl::StrFormat("<0x%02X>", byte));
    if (byte_ids_[byte] < 0) takes_bytes_ = false;
    if (byte_tokens_[byte] < 0) falls_back_ = false;
  }
  for (char32_t code = 0; code < 128; ++code) ascii_ids_[code] = find(Utf8(code));
}

absl::Status Bpe::AddMerges() {
  const Vocabulary& vocabulary = spec_.vocabulary;
  const size_t prefix = spec_.continuing_subword_prefix.size();
  // Prefixes and suffixes depend on where a word begins and ends; symbols that are not the
  // characters they stand for would join what their neighbours' characters do not tell.
  cuts_ = plain_;
  std::vector<bool> stands_for_others(static_cast<size_t>(vocabulary.end()));
  if (unk_.has_value()) stands_for_others[static_cast<size_t>(*unk_)] = true;
  for (const int32_t id : byte_tokens_) {
    if (id >= 0 && spec_.byte_fallback) stands_for_others[static_cast<size_t>(id)] = true;
  }
  merges_.Reserve(spec_.merges.size());
  uint32_t rank = 0;
  for (const auto& merge : spec_.merges) {
    const std::string& left = merge.first;
    const std::string& right = merge.second;
    const auto refuse = [&](const std::string& why) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank, " of ", Quoted(left), " and ", Quoted(right), ": ", why));
    };
    // With nothing behind the prefix a merge would make its left side again, for ever.
    if (left.empty() || right.size() <= prefix) return refuse("one side is empty");
    const std::optional<int32_t> a = vocabulary.Find(left);
    const std::optional<int32_t> b = vocabulary.Find(right);
    const std::optional<int32_t> both = vocabulary.Find(left + right.substr(prefix));
    if (!a.has_value() || !b.has_value()) return refuse("not both are in the vocabulary");
    if (!both.has_value()) return refuse("what they make is not in the vocabulary");
    merges_.Add(*a, *b, rank++, *both);
    if (stands_for_others[static_cast<size_t>(*a)] || stands_for_others[static_cast<size_t>(*b)]) {
      cuts_ = false;
    }
    const char* const end = left.data() + left.size();
    joints_.insert(JointOf(DecodeBefore(left.data(), end).code, DecodeAt(right.data()).code));
  }
  return absl::OkStatus();
}

void Bpe::EncodeBytes(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const {
  scratch->cache.Append(word, out, [&] { MergeBytes(word, scratch, out); });
}

void Bpe::MergeBytes(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const {
  if (spec_.ignore_merges && word.size() <= longest_token_) {
    scratch->text.clear();
    AppendByteCharacters(word, &scratch->text);
    if (const std::optional<int32_t> id = spec_.vocabulary.Find(scratch->text); id.has_value()) {
      out->Add(*id);
      return;
    }
  }
  scratch->symbols.clear();
  for (const char byte : word) {
    scratch->symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  }
  merges_.Merge(scratch->symbols.data(), scratch->symbols.size(), &scratch->merge, out);
}

void Bpe::EncodeCharacters(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const {
  if (spec_.ignore_merges && word.size() <= longest_token_) {
    if (const std::optional<int32_t> id = spec_.vocabulary.Find(word); id.has_value()) {
      out->Add(*id);
      return;
    }
  }
  if (!cuts_) {
    scratch->cache.Append(word, out, [&] { MergeCharacters(word, scratch, out); });
    return;
  }
  const char* const end = word.data() + word.size();
  const char* begin = word.data();
  for (const char* at = begin + 1; at < end; ++at) {
    at = static_cast<const char*>(std::memchr(at, kWordMark[0], static_cast<size_t>(end - at)));
    if (at == nullptr) break;
    const std::string_view rest(at, static_cast<size_t>(end - at));
    if (rest.substr(0, kWordMark.size()) != kWordMark || !MayCut(begin, at)) continue;
    AppendStretch({begin, static_cast<size_t>(at - begin)}, scratch, out);
    begin = at;
  }
  AppendStretch({begin, static_cast<size_t>(end - begin)}, scratch, out);
}

// Appends the tokens of a stretch of text that can be cut out.
void Bpe::AppendStretch(std::string_view stretch, BpeScratch* scratch, TokenBuffer* out) const {
  const auto append = [&](std::string_view word) {
    scratch->cache.Append(word, out, [&] { MergeCharacters(word, scratch, out); });
  };
  if (stretch.size() <= kLongStretch) {
    append(stretch);
    return;
  }
  const char* const end = stretch.data() + stretch.size();
  const char* begin = stretch.data();
  for (const char* at = begin + DecodeAt(begin).size; at < end; at += DecodeAt(at).size) {
    if (!MayCut(begin, at)) continue;
    append({begin, static_cast<size_t>(at - begin)});
    begin = at;
  }
  append({begin, static_cast<size_t>(end - begin)});
}

// Whether no merge, and no run of unknown characters, can reach across `at` in text from `begin`.
bool Bpe::MayCut(const char* begin, const char* at) const {
  const Character left = DecodeBefore(begin, at);
  const Character right = DecodeAt(at);
  if (joints_.contains(JointOf(left.code, right.code))) return false;
  if (falls_back_) return true;
  return IdOf({at - left.size, left.size}) >= 0 && IdOf({at, right.size}) >= 0;
}

// -1: the character is not in the vocabulary.
int32_t Bpe::IdOf(std::string_view character) const {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1 && first < 0x80) return ascii_ids_[first];
  return spec_.vocabulary.Find(character).value_or(-1);
}

// Appends the tokens of an unknown character's bytes, if all of them are in the vocabulary.
bool Bpe::AppendFallback(std::string_view character, std::vector<int32_t>* symbols) const {
  const size_t before = symbols->size();
  for (const char byte : character) {
    const int32_t id = byte_tokens_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      symbols->resize(before);
      return false;
    }
    symbols->push_back(id);
  }
  return true;
}

void Bpe::MergeCharacters(std::string_view word, BpeScratch* scratch, TokenBuffer* out) const {
  std::vector<int32_t>& symbols = scratch->symbols;
  symbols.clear();
  bool unknown = false;  // an unk_token is yet to be written
  const auto write_unknown = [&] {
    if (unknown) symbols.push_back(*unk_);
    unknown = false;
  };
  for (const char *begin = word.data(), *at = begin, *end = begin + word.size(); at < end;) {
    std::string_view symbol(at, DecodeAt(at).size);
    if (!plain_) {
      std::string& text = scratch->text;
      text = at == begin ? "" : spec_.continuing_subword_prefix;
      text.append(symbol);
      if (at + symbol.size() == end) text.append(spec_.end_of_word_suffix);
    }
    at += symbol.size();
    if (!plain_) symbol = scratch->text;
    const int32_t id = IdOf(symbol);
    if (id >= 0) {
      write_unknown();
      symbols.push_back(id);
      continue;
    }
    // Without an unk_token what is unknown is left out. One that waits is overtaken by bytes.
    if (spec_.byte_fallback && AppendFallback(symbol, &symbols)) continue;
    if (!spec_.unk_token.has_value()) continue;
    if (!unk_.has_value()) {
      scratch->unk_missing = true;
      continue;
    }
    if (!spec_.fuse_unk) write_unknown();
    unknown = true;
  }
  write_unknown();
  merges_.Merge(symbols.data(), symbols.size(), &scratch->merge, out);
}

}  // namespace strata::data
