// Text as Python sees it: indices count characters, white space is Unicode's. Strings are valid
// UTF-8 everywhere in this folder.
#ifndef STRATA_DATA_RECORDS_JINJA_TEXT_H_
#define STRATA_DATA_RECORDS_JINJA_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::data::jinja {

// The character at byte `at` (at < size), its length in `length`.
char32_t CharacterAt(std::string_view text, size_t at, size_t* length);
std::vector<std::string_view> Characters(std::string_view text);
// The first characters of `text`, at most `most` bytes: for messages.
std::string_view Excerpt(std::string_view text, size_t most);

// str.isspace() of one character.
bool IsSpace(char32_t character);
// str.isprintable() of one character.
bool IsPrintable(char32_t character);

// The most bytes of `characters` that Strip should be asked to look for at each place.
inline constexpr size_t kMostStripped = 256;
// str.strip() and its one-sided forms; `characters` absent: white space.
std::string_view Strip(std::string_view text, std::optional<std::string_view> characters, bool left,
                       bool right);

// str.split(separator, limit), str.rsplit where `from_right`; separator absent: runs of white
// space; limit < 0: none. The separator is not empty.
std::vector<std::string_view> Split(std::string_view text,
                                    std::optional<std::string_view> separator, int64_t limit,
                                    bool from_right);
// str.splitlines().
std::vector<std::string_view> SplitLines(std::string_view text, bool keep_ends);
// str.replace(from, to, limit); an empty `from` stands between all characters. Nothing if the
// result would be longer than `most` bytes.
std::optional<std::string> Replace(std::string_view text, std::string_view from,
                                   std::string_view to, int64_t limit, int64_t most);

enum class Case { kLower, kUpper, kTitle, kCapitalized };
// InvalidArgument for letters beyond ASCII, whose case depends on language and Unicode version.
absl::StatusOr<std::string> ToCase(std::string_view text, Case to);

// Python's repr() of a str, a float.
std::string Quoted(std::string_view text);
std::string FloatText(double value);
// A JSON string as Python's json.dumps writes it.
void AppendJsonString(std::string_view text, bool ascii, std::string* out);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_TEXT_H_
