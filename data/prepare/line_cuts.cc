#include "data/prepare/line_cuts.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/small_file.h"
#include "common/status_macros.h"

namespace strata::data {
namespace {

using nlohmann::json;

// What Llama 3, and Qwen 2 and 3, cut texts with: they differ in how many digits stand together.
std::string ProvenSplit(const char* digits) {
  return absl::StrCat(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)", digits,
                      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
}
// GPT-2's, which is also what ByteLevel does by itself.
constexpr char kGpt2Split[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// The value at a key, null where there is none.
const json& At(const json& object, const char* key) {
  static const json& none = *new json();
  if (!object.is_object()) return none;
  const auto found = object.find(key);
  return found == object.end() ? none : *found;
}

bool IsByteLevel(const json& step, bool splits) {
  return At(step, "type") == "ByteLevel" && At(step, "add_prefix_space") == false &&
         (At(step, "use_regex").is_null() || At(step, "use_regex") == true) == splits;
}

bool IsProvenSplit(const json& step) {
  if (At(step, "type") != "Split" || At(step, "behavior") != "Isolated") return false;
  if (At(step, "invert") != false && !At(step, "invert").is_null()) return false;
  const json& pattern = At(At(step, "pattern"), "Regex");
  return pattern == ProvenSplit(R"(\p{N}{1,3})") || pattern == ProvenSplit(R"(\p{N})") ||
         pattern == kGpt2Split;
}

bool SplitsAtLines(const json& splitter) {
  if (IsByteLevel(splitter, true)) return true;
  const json& steps = At(splitter, "pretokenizers");
  return At(splitter, "type") == "Sequence" && steps.is_array() && steps.size() == 2 &&
         IsProvenSplit(steps[0]) && IsByteLevel(steps[1], false);
}

// Whether it goes on with something else behind a newline, spelled `newline`.
bool GoesOnBehind(absl::string_view text, absl::string_view newline) {
  for (size_t at = text.find(newline); at != text.npos; at = text.find(newline, at + 1)) {
    const absl::string_view rest = text.substr(at + newline.size());
    if (!rest.empty() && !absl::StartsWith(rest, newline)) return true;
  }
  return false;
}

bool LeavesLinesAlone(const json& added) {
  const json& content = At(added, "content");
  return content.is_string() && !GoesOnBehind(content.get_ref<const std::string&>(), "\n") &&
         At(added, "lstrip") != true;
}

// Turns spaces into `▁`, after a Prepend or not.
bool OnlySpells(const json& normalizer) {
  if (normalizer.is_null()) return true;
  if (At(normalizer, "type") == "Prepend") return true;
  if (At(normalizer, "type") == "Replace") {
    return At(At(normalizer, "pattern"), "String") == " ";
  }
  const json& steps = At(normalizer, "normalizers");
  return At(normalizer, "type") == "Sequence" && steps.is_array() &&
         std::all_of(steps.begin(), steps.end(), OnlySpells);
}

bool SplitsAtSpacesAtMost(const json& splitter) {
  if (splitter.is_null() || At(splitter, "type") == "Metaspace") return true;
  return At(splitter, "type") == "Split" && At(At(splitter, "pattern"), "String") == " ";
}

// Whether BPE with all bytes to fall back on never merges across a newline that ends a part.
bool NeverMergesBehindNewlines(const Tokenizer& tokenizer) {
  for (int b = 0; b < 256; ++b) {
    const std::string byte = absl::StrFormat("<0x%02X>", b);
    if (!tokenizer.Find(byte).has_value()) return false;
  }
  for (int64_t id = 0; id < tokenizer.vocabulary(); ++id) {
    const std::string_view text = tokenizer.Text(static_cast<int32_t>(id));
    const absl::string_view entry(text.data(), text.size());
    if (GoesOnBehind(entry, "\n") || GoesOnBehind(entry, "<0x0A>")) return false;
  }
  return true;
}

LineCuts CutsOf(const json& file, const Tokenizer& tokenizer) {
  const json& added = At(file, "added_tokens");
  const json& normalizer = At(file, "normalizer");
  const json& splitter = At(file, "pre_tokenizer");
  if (!file.is_object() || !(added.is_null() || added.is_array())) return LineCuts::kNone;
  if (!std::all_of(added.begin(), added.end(), LeavesLinesAlone)) return LineCuts::kNone;
  if ((normalizer.is_null() || At(normalizer, "type") == "NFC") && SplitsAtLines(splitter)) {
    return LineCuts::kPlain;
  }
  const bool whole = OnlySpells(normalizer) && SplitsAtSpacesAtMost(splitter);
  if (whole && NeverMergesBehindNewlines(tokenizer)) return LineCuts::kBehindNewline;
  return LineCuts::kNone;
}

bool IsWhiteSpace(uint32_t c) {
  return c <= 0x20 || c == 0x7f || c == 0x85 || c == 0xa0 || c == 0x1680 || c == 0x180e ||
         (c >= 0x2000 && c <= 0x200f) || (c >= 0x2028 && c <= 0x202f) ||
         (c >= 0x205f && c <= 0x206f) || c == 0x3000 || c == 0xfeff;
}

// Whether a whole character that is no white space stands in [begin, end) of `text`.
bool IsVisible(absl::string_view text, size_t begin, size_t end) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(begin);
  if (first < 0x80) return end == begin + 1 && !IsWhiteSpace(first);
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || end != begin + length) return false;
  uint32_t c = first & (0x7f >> length);
  for (size_t i = begin + 1; i < end; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return false;
    c = c << 6 | (byte(i) & 0x3f);
  }
  return !IsWhiteSpace(c);
}

bool Continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

absl::StatusOr<LineCuts> LineCutsOf(const std::string& path, const Tokenizer& tokenizer) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string file = path;
  if (fs::is_directory(path, error)) {
    file = absl::StrCat(path, "/tokenizer.json");
    // GPT-2's own files: its vocabulary and its merges, and its split.
    if (!fs::exists(file, error)) return LineCuts::kPlain;
  }
  ASSIGN_OR_RETURN(const std::string text, common::ReadFile(file));
  // Vocabularies are long; the tokenizer has them.
  const auto keep = [](int depth, json::parse_event_t event, json& parsed) {
    return !(event == json::parse_event_t::key && depth == 1 && parsed == "model");
  };
  return CutsOf(json::parse(text, keep, /*allow_exceptions=*/false), tokenizer);
}

size_t LastLineCut(absl::string_view text) {
  for (size_t end = text.size(); end > 2;) {
    const size_t newline = text.rfind('\n', end - 2);  // a character follows it
    if (newline == absl::string_view::npos || newline == 0) return 0;
    size_t before = newline - 1;
    while (before > 0 && newline - before < 4 && Continues(text[before])) --before;
    size_t after = newline + 2;
    while (after < text.size() && after < newline + 5 && Continues(text[after])) ++after;
    if (IsVisible(text, before, newline) && IsVisible(text, newline + 1, after)) return newline + 1;
    end = newline + 1;
  }
  return 0;
}

}  // namespace strata::data
