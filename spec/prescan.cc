#include "spec/prescan.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/units.h"

namespace strata::spec {
namespace {

// Bytes of the UTF-8 character at `offset`, 0 if there is none (Unicode 15, table 3-7).
size_t CharacterLength(absl::string_view text, size_t offset) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const uint8_t lead = byte(offset);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    return 0;
  }
  if (byte(offset + 1) < low || byte(offset + 1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(offset + i) & 0xc0) != 0x80) return 0;
  }
  return length;
}

bool CheckCharacters(absl::string_view text, Problems& problems) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text, i);
    const auto byte = static_cast<uint8_t>(text[i]);
    if (length == 0) {
      problems.Add({PositionOf(text, i), "", absl::StrFormat("not UTF-8 (byte 0x%02x)", byte),
                    "save the file as UTF-8"});
      return false;
    }
    if (byte == 0 || (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') ||
        byte == 0x7f) {
      problems.Add({PositionOf(text, i), "",
                    byte == 0 ? std::string("a NUL byte")
                              : absl::StrFormat("a control character (byte 0x%02x)", byte),
                    "remove it"});
      return false;
    }
    i += length;
  }
  return true;
}

bool CheckTabs(absl::string_view text, Problems& problems) {
  bool in_indentation = true;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') {
      in_indentation = true;
    } else if (text[i] == '\t' && in_indentation) {
      const size_t next = text.find_first_not_of(" \t\r", i);
      if (next == absl::string_view::npos || text[next] == '\n' || text[next] == '#') continue;
      problems.Add({PositionOf(text, i), "", "a tab as indentation (YAML allows spaces only)",
                    "use spaces"});
      return false;
    } else if (text[i] != ' ') {
      in_indentation = false;
    }
  }
  return true;
}

// Follows brackets and indentation through a text. Quotes and comments are skipped.
class NestingScan {
 public:
  explicit NestingScan(absl::string_view text) : text_(text) {}

  // The offset where the nesting first exceeds the limit, or npos.
  size_t FirstTooDeep() {
    while (at_ < text_.size()) {
      if (at_line_start_ && flow_ == 0) EnterLine();
      if (TooDeep()) return at_;
      at_line_start_ = false;
      if (at_ < text_.size()) Step();
      if (TooDeep()) return at_ - 1;
    }
    return absl::string_view::npos;
  }

 private:
  bool TooDeep() const { return flow_ + static_cast<int>(columns_.size()) > kDeepestNesting; }
  char Next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\n'; }
  static bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

  // Reads indentation and leading `- ` and `? ` marks: each opens a block at its column.
  void EnterLine() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    if (at_ >= text_.size() || IsSpace(text_[at_]) || text_[at_] == '#') return;
    while (!columns_.empty() && columns_.back() >= at_ - begin) columns_.pop_back();
    columns_.push_back(at_ - begin);
    while (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '?') && IsSpace(Next()) &&
           !TooDeep()) {
      ++at_;
      while (at_ < text_.size() && text_[at_] == ' ') ++at_;
      if (at_ < text_.size() && !IsSpace(text_[at_])) columns_.push_back(at_ - begin);
    }
  }

  void Step() {
    const char c = text_[at_];
    const char before = at_ == 0 ? '\n' : text_[at_ - 1];
    const bool starts = IsSpace(before) || before == '[' || before == '{' || before == ',';
    if (c == '\n') {
      at_line_start_ = true;
    } else if (c == '#' && IsSpace(before)) {
      at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
    } else if ((c == '"' || c == '\'') && starts) {
      SkipQuoted(c);
    } else if ((c == '[' || c == '{') && (flow_ > 0 || starts)) {
      ++flow_;
    } else if ((c == ']' || c == '}') && flow_ > 0) {
      --flow_;
    }
    ++at_;
  }

  void SkipQuoted(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (quote == '"' && text_[at_] == '\\') ++at_;
    }
  }

  absl::string_view text_;
  size_t at_ = 0;
  bool at_line_start_ = true;
  int flow_ = 0;
  std::vector<size_t> columns_;  // of the open blocks
};

}  // namespace

Position PositionOf(absl::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  Position position;
  size_t line_begin = 0;
  for (size_t i = 0; i < offset; ++i) {
    if (text[i] != '\n') continue;
    ++position.line;
    line_begin = i + 1;
  }
  position.column = static_cast<int>(offset - line_begin) + 1;
  return position;
}

bool IsUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = CharacterLength(text, i);
    if (length == 0) return false;
    i += length;
  }
  return true;
}

bool Prescan(absl::string_view text, Problems& problems, const FileKind& kind) {
  if (text.size() > kind.most_bytes) {
    problems.Add({Position{}, "",
                  absl::StrCat("too large (at most ",
                               common::FormatBytes(static_cast<double>(kind.most_bytes)), ")"),
                  kind.when_too_large});
    return false;
  }
  if (!CheckCharacters(text, problems) || !CheckTabs(text, problems)) return false;
  const size_t deep = NestingScan(text).FirstTooDeep();
  if (deep == absl::string_view::npos) return true;
  problems.Add({PositionOf(text, deep), "",
                absl::StrCat("nested too deep (more than ", kDeepestNesting, " levels)"),
                absl::StrCat("no ", kind.name, " file needs that")});
  return false;
}

}  // namespace strata::spec
