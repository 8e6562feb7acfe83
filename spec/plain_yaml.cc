#include "spec/plain_yaml.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"

namespace strata::spec {
namespace {

constexpr int kDeepest = 8;
constexpr size_t kMostKeys = 32;     // of one section: they are compared one by one
constexpr size_t kLongestKey = 512;  // YAML allows keys of 1024

bool IsWordCharacter(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '.' || c == '/' || c == '-' || c == '+';
}

bool IsNull(absl::string_view word) { return word == "null" || word == "Null" || word == "NULL"; }

// Every function returns false, or null, on anything that is not plain.
class PlainParser {
 public:
  explicit PlainParser(absl::string_view text) : text_(text) {}

  std::unique_ptr<YamlNode> Parse() {
    for (const char c : text_) {
      if ((c < 0x20 && c != '\n') || c > 0x7e) return nullptr;
    }
    if (!NextLine() || column_ != 0) return nullptr;
    auto root = std::make_unique<YamlNode>();
    if (Peek() == '{' || Peek() == '[') {
      several_lines_ = true;
      if (!Flow(*root, 0) || !EndLine()) return nullptr;
    } else if (!Block(*root, 0)) {
      return nullptr;
    }
    return at_ == text_.size() ? std::move(root) : nullptr;
  }

 private:
  char Peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\n';
  }
  int ColumnOf(size_t at) const { return static_cast<int>(at - line_begin_); }
  Position Here() const { return {.line = line_, .column = ColumnOf(at_) + 1}; }
  void SkipSpaces() {
    while (Peek() == ' ' && at_ < text_.size()) ++at_;
  }
  void PassNewline() {
    ++at_;
    ++line_;
    line_begin_ = at_;
  }

  // From the start of a line to the first character of the next line that is not blank or a
  // comment; its column in column_, -1 at the end. False for markers of documents.
  bool NextLine() {
    while (at_ < text_.size()) {
      SkipSpaces();
      if (Peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      if (at_ >= text_.size()) break;
      if (text_[at_] == '\n') {
        PassNewline();
        continue;
      }
      column_ = ColumnOf(at_);
      const absl::string_view start = text_.substr(at_, 3);
      return column_ > 0 || (start != "---" && start != "...");
    }
    column_ = -1;
    return true;
  }

  // What may follow a value in its line: nothing, or a comment. Then NextLine.
  bool EndLine() {
    const size_t before = at_;
    SkipSpaces();
    if (Peek() == '#' && at_ > before) at_ = std::min(text_.find('\n', at_), text_.size());
    if (Peek() != '\n') return false;
    if (at_ < text_.size()) PassNewline();
    return NextLine();
  }

  bool AtDash() const { return Peek() == '-' && (Peek(1) == ' ' || Peek(1) == '\n'); }

  // The list or section that begins here.
  bool Block(YamlNode& node, int depth) {
    if (depth > kDeepest) return false;
    node.position = Here();
    return AtDash() ? List(node, depth) : Section(node, depth);
  }

  bool List(YamlNode& node, int depth) {
    node.kind = YamlNode::Kind::kSequence;
    const int indentation = column_;
    while (column_ == indentation && AtDash()) {
      ++at_;
      SkipSpaces();
      if (Peek() == '\n' || Peek() == '#' || AtDash()) return false;
      auto element = std::make_unique<YamlNode>();
      element->position = Here();
      const Position position = Here();
      column_ = ColumnOf(at_);
      if (!(AtKey() ? Section(*element, depth + 1) : Value(*element, depth + 1))) return false;
      node.children.push_back({"", position, std::move(element)});
    }
    return column_ <= indentation;
  }

  // Whether `key:` stands here. Looks no further than this line.
  bool AtKey() {
    const size_t begin = at_;
    std::string ignored;
    bool quoted = false;
    const bool word = Peek() != '{' && Peek() != '[' && Word(ignored, quoted);
    const bool key = word && Peek() == ':' && (Peek(1) == ' ' || Peek(1) == '\n');
    at_ = begin;
    return key;
  }

  bool Section(YamlNode& node, int depth) {
    if (depth > kDeepest) return false;
    node.kind = YamlNode::Kind::kMapping;
    node.position = Here();
    const int indentation = column_;
    while (column_ == indentation && !AtDash()) {
      YamlNode::Child child;
      if (!Key(node, child)) return false;
      SkipSpaces();
      auto value = std::make_unique<YamlNode>();
      if (Peek() != '\n' && Peek() != '#') {
        if (!Value(*value, depth + 1)) return false;
      } else {
        if (!EndLine()) return false;
        // A list may stand at its key's own column.
        if (column_ < indentation || (column_ == indentation && !AtDash())) return false;
        if (!Block(*value, depth + 1)) return false;
      }
      child.node = std::move(value);
      node.children.push_back(std::move(child));
    }
    return column_ < indentation || (column_ == indentation && AtDash());
  }

  // `key:` and what it needs after it.
  bool Key(const YamlNode& section, YamlNode::Child& child) {
    child.key_position = Here();
    bool quoted = false;
    if (!Word(child.key, quoted) || child.key.size() > kLongestKey || Peek() != ':') return false;
    ++at_;
    if (Peek() != ' ' && Peek() != '\n') return false;
    return section.children.size() < kMostKeys && section.Find(child.key) == nullptr;
  }

  // A value in this line, and the line's end.
  bool Value(YamlNode& node, int depth) { return Flow(node, depth) && EndLine(); }

  bool Flow(YamlNode& node, int depth) {
    if (depth > kDeepest) return false;
    node.position = Here();
    if (Peek() != '{' && Peek() != '[') {
      node.kind = YamlNode::Kind::kScalar;
      return Word(node.text, node.quoted);
    }
    const bool section = Peek() == '{';
    const char close = section ? '}' : ']';
    node.kind = section ? YamlNode::Kind::kMapping : YamlNode::Kind::kSequence;
    node.flow = true;
    ++at_;
    SkipInFlow();
    if (Peek() == close) return ++at_, true;
    while (true) {
      YamlNode::Child child;
      if (section && !Key(node, child)) return false;
      SkipInFlow();
      if (!section) child.key_position = Here();
      child.node = std::make_unique<YamlNode>();
      if (!Flow(*child.node, depth + 1)) return false;
      node.children.push_back(std::move(child));
      SkipInFlow();
      if (Peek() == close) return ++at_, true;
      if (Peek() != ',' || (Peek(1) != ' ' && Peek(1) != '\n')) return false;
      ++at_;
      SkipInFlow();
    }
  }

  void SkipInFlow() {
    SkipSpaces();
    while (several_lines_ && at_ < text_.size() && Peek() == '\n') {
      PassNewline();
      SkipSpaces();
    }
  }

  // A word, a number, or a text in quotes.
  bool Word(std::string& word, bool& quoted) {
    const char first = Peek();
    quoted = first == '"' || first == '\'';
    size_t end = at_ + 1;
    if (quoted) {
      while (end < text_.size() && text_[end] != first && text_[end] != '\n' && text_[end] != '\\')
        ++end;
      if (end >= text_.size() || text_[end] != first) return false;
      word.assign(text_.data() + at_ + 1, end - at_ - 1);
      at_ = end + 1;
      return Peek() != first;  // '' inside quotes
    }
    const bool number =
        (first == '-' || first == '+' || first == '.') && absl::ascii_isdigit(Peek(1));
    if (!absl::ascii_isalnum(first) && first != '_' && first != '/' && !number) return false;
    while (end < text_.size() && IsWordCharacter(text_[end])) ++end;
    word.assign(text_.data() + at_, end - at_);
    at_ = end;
    return !IsNull(word);
  }

  absl::string_view text_;
  size_t at_ = 0;
  size_t line_begin_ = 0;
  int line_ = 1;
  int column_ = 0;  // of the line's first character, from 0; -1 at the end
  bool several_lines_ = false;
};

}  // namespace

std::unique_ptr<YamlNode> ParsePlainYaml(absl::string_view text) {
  return PlainParser(text).Parse();
}

}  // namespace strata::spec
