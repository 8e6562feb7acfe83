#include "data/tokenizer/vocabulary.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/strings/str_cat.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

constexpr size_t kFirstPlaces = 1024;

}  // namespace

// Where the text is, or would be put.
size_t Vocabulary::PlaceOf(std::string_view text) const {
  const size_t mask = places_.size() - 1;
  size_t place = XXH3_64bits(text.data(), text.size()) & mask;
  while (places_[place] >= 0 && Text(places_[place]) != text) place = (place + 1) & mask;
  return place;
}

void Vocabulary::Rehash() {
  places_.assign(std::max(kFirstPlaces, 2 * places_.size()), -1);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (Has(token)) places_[PlaceOf(Text(token))] = token;
  }
}

absl::Status Vocabulary::Add(std::string_view text, int64_t id) {
  if (id < 0 || id >= kMostIds) {
    return absl::InvalidArgumentError(
        absl::StrCat("token ", Quoted(text), " has id ", id, ", not one of 0 to ", kMostIds - 1));
  }
  const auto token = static_cast<int32_t>(id);
  if (Has(token)) {
    return absl::InvalidArgumentError(absl::StrCat("tokens ", Quoted(Text(token)), " and ",
                                                   Quoted(text), " have the same id ", id));
  }
  if (2 * (size_ + 1) > places_.size()) Rehash();
  const size_t place = PlaceOf(text);
  if (places_[place] >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("token ", Quoted(text), " is there twice"));
  }
  if (id >= end()) tokens_.resize(static_cast<size_t>(id) + 1);
  tokens_[static_cast<size_t>(id)] = {texts_.size(), static_cast<uint32_t>(text.size())};
  texts_.append(text);
  places_[place] = token;
  ++size_;
  return absl::OkStatus();
}

std::optional<int32_t> Vocabulary::Find(std::string_view text) const {
  if (places_.empty()) return std::nullopt;
  const int32_t id = places_[PlaceOf(text)];
  if (id < 0) return std::nullopt;
  return id;
}

std::string_view Vocabulary::Text(int32_t id) const {
  if (!Has(id)) return {};
  const Token& token = tokens_[static_cast<size_t>(id)];
  return std::string_view(texts_).substr(token.begin, token.size);
}

bool Vocabulary::Has(int32_t id) const {
  return id >= 0 && id < end() && tokens_[static_cast<size_t>(id)].begin != kAbsent;
}

}  // namespace strata::data
