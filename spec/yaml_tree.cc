#include "spec/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "spec/prescan.h"

namespace strata::spec {
namespace {

Position ToPosition(const YAML::Mark& mark) {
  Position position;
  position.line = std::max(mark.line, 0) + 1;
  position.column = std::max(mark.column, 0) + 1;
  return position;
}

// Builds the tree from the parser's events. `frames_` is the path of open collections.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(absl::string_view text, const FileKind& kind, Problems& problems)
      : text_(text), kind_(kind), problems_(problems) {}

  std::unique_ptr<YamlNode> TakeRoot() { return std::move(root_); }
  const Position& start() const { return start_; }
  // Whether a quote runs to the end of the text (yaml-cpp does not mind).
  bool open_quote() const { return open_quote_; }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = ToPosition(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    RefuseAnchor(mark, anchor);
    Leaf(YamlNode::Kind::kNull, mark, "");
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Report(
        mark, "an alias (*name)",
        absl::StrCat("write the value itself: ", kind_.name, " files have no aliases and anchors"));
    Leaf(YamlNode::Kind::kNull, mark, "");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    RefuseAnchor(mark, anchor);
    const bool quoted = tag == "!";
    if (!quoted) RefuseTag(mark, tag);
    if (quoted && !IsClosed(mark)) {
      Report(mark, "a quote is never closed", "close it in the same line");
      open_quote_ = true;
    }
    Leaf(YamlNode::Kind::kScalar, mark, value)->quoted = quoted;
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    Open(YamlNode::Kind::kSequence, mark, tag, anchor, style);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    Open(YamlNode::Kind::kMapping, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapEnd() override { Close(); }

 private:
  struct Frame {
    YamlNode* node = nullptr;
    std::string path;
    bool expects_key = false;  // in a mapping
    bool is_key = false;       // this collection stands where a key should: read, then dropped
    std::unique_ptr<YamlNode> dropped;
    std::set<std::string> keys;
  };

  void Report(const YAML::Mark& mark, std::string what, std::string remedy) {
    problems_.Add({ToPosition(mark), CurrentPath(), std::move(what), std::move(remedy)});
  }

  void RefuseAnchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor == 0) return;
    Report(mark, "an anchor (&name)",
           absl::StrCat("remove it: ", kind_.name, " files have no aliases and anchors"));
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?") return;
    Report(mark, absl::StrCat("a tag (", Shown(tag), ")"),
           absl::StrCat("remove it: ", kind_.name, " files have no tags"));
  }

  // Whether the quoted scalar that begins at `mark` ends in a quote. True for block scalars.
  bool IsClosed(const YAML::Mark& mark) const {
    const auto begin = static_cast<size_t>(std::max(mark.pos, 0));
    if (begin >= text_.size() || (text_[begin] != '"' && text_[begin] != '\'')) return true;
    const char quote = text_[begin];
    for (size_t at = begin + 1; at < text_.size(); ++at) {
      if (quote == '"' && text_[at] == '\\') {
        ++at;
      } else if (text_[at] == quote) {
        if (quote == '"' || at + 1 >= text_.size() || text_[at + 1] != quote) return true;
        ++at;  // '' stands for one quote
      }
    }
    return false;
  }

  // Path of the value that comes next.
  std::string CurrentPath() const {
    if (frames_.empty()) return "";
    const Frame& top = frames_.back();
    if (top.node->kind == YamlNode::Kind::kSequence) {
      return absl::StrCat(top.path, "[", top.node->children.size(), "]");
    }
    if (top.expects_key || top.node->children.empty()) return top.path;
    const YamlNode::Child& child = top.node->children.back();
    return child.keyless ? top.path : PathOf(top.path, child.key);
  }

  bool AtKey() const { return !frames_.empty() && frames_.back().expects_key; }

  YamlNode* Leaf(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& text) {
    if (AtKey()) {
      if (kind == YamlNode::Kind::kNull)
        Report(mark, "a key is missing before ':'", "name the key");
      AddKey(mark, text, kind == YamlNode::Kind::kNull);
      return &scratch_;
    }
    YamlNode* node = Place(kind, mark);
    node->text = text;
    return node;
  }

  void AddKey(const YAML::Mark& mark, const std::string& key, bool keyless) {
    Frame& top = frames_.back();
    if (!keyless && !top.keys.insert(key).second && !problems_.full()) {
      const YamlNode::Child* first = top.node->Find(key);
      problems_.Add({ToPosition(mark), PathOf(top.path, key),
                     absl::StrCat("given twice (first in line ", first->key_position.line, ")"),
                     "remove one of them"});
    }
    top.node->children.push_back({key, ToPosition(mark), std::make_unique<YamlNode>(), keyless});
    top.node->children.back().node->position = ToPosition(mark);
    top.expects_key = false;
  }

  // The node for the value that comes now; the parent then expects its next key.
  YamlNode* Place(YamlNode::Kind kind, const YAML::Mark& mark) {
    auto node = std::make_unique<YamlNode>();
    node->kind = kind;
    node->position = ToPosition(mark);
    YamlNode* placed = node.get();
    if (frames_.empty()) {
      root_ = std::move(node);
    } else if (frames_.back().node->kind == YamlNode::Kind::kSequence) {
      frames_.back().node->children.push_back({"", node->position, std::move(node)});
    } else {
      // An absent value stands where its key stands.
      if (kind == YamlNode::Kind::kNull)
        node->position = frames_.back().node->children.back().key_position;
      frames_.back().node->children.back().node = std::move(node);
      frames_.back().expects_key = true;
    }
    return placed;
  }

  void Open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor, YAML::EmitterStyle::value style) {
    RefuseAnchor(mark, anchor);
    RefuseTag(mark, tag);
    Frame frame;
    frame.path = CurrentPath();
    frame.expects_key = kind == YamlNode::Kind::kMapping;
    if (AtKey()) {
      Report(mark, "a list or section where a key should stand", "name the key");
      frame.is_key = true;
      frame.dropped = std::make_unique<YamlNode>();
      frame.dropped->kind = kind;
      frame.node = frame.dropped.get();
    } else {
      frame.node = Place(kind, mark);
      frame.node->flow = style == YAML::EmitterStyle::Flow;
    }
    frames_.push_back(std::move(frame));
  }

  void Close() {
    const bool was_key = frames_.back().is_key;
    frames_.pop_back();
    if (was_key) AddKey(YAML::Mark::null_mark(), "", true);
  }

  absl::string_view text_;
  const FileKind& kind_;
  Problems& problems_;
  Position start_;
  bool open_quote_ = false;
  std::unique_ptr<YamlNode> root_;
  std::vector<Frame> frames_;
  YamlNode scratch_;
};

// What yaml-cpp's messages mean to somebody who does not know YAML's grammar.
std::string Explain(const std::string& message) {
  namespace ErrorMsg = YAML::ErrorMsg;
  if (message == ErrorMsg::BAD_FILE) return "nested too deep";
  if (message == ErrorMsg::MAP_VALUE) {
    return "a ':' where none may stand (is the line before it indented differently or missing its "
           "':'?)";
  }
  if (message == ErrorMsg::END_OF_MAP || message == ErrorMsg::END_OF_SEQ) {
    return "unexpected indentation, or a line without ':'";
  }
  if (message == ErrorMsg::END_OF_MAP_FLOW) return "a '{' is never closed";
  if (message == ErrorMsg::END_OF_SEQ_FLOW) return "a '[' is never closed";
  if (message == ErrorMsg::EOF_IN_SCALAR) return "a quote is never closed";
  return message;
}

// Marks at the end of the text may lie behind its last line.
Position Clamp(Position position, absl::string_view text) {
  const Position last = PositionOf(text, text.size());
  if (position.line < last.line) return position;
  if (last.line > 1 && last.column == 1) return PositionOf(text, text.size() - 1);
  return {last.line,
          std::min(position.line > last.line ? last.column : position.column, last.column)};
}

}  // namespace

std::string PathOf(absl::string_view section, absl::string_view key) {
  return absl::StrCat(section, section.empty() ? "" : ".", key.empty() ? "\"\"" : Shown(key));
}

std::string KindOf(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing (null)";
    case YamlNode::Kind::kScalar:
      return absl::StrCat(node.quoted ? "the text \"" : "", Shown(node.text),
                          node.quoted ? "\"" : "");
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMapping:
      return "a section";
  }
  return "";
}

const YamlNode::Child* YamlNode::Find(absl::string_view key) const {
  for (const Child& child : children) {
    if (child.key == key && !child.keyless) return &child;
  }
  return nullptr;
}

YamlNode::Child* YamlNode::Find(absl::string_view key) {
  return const_cast<Child*>(static_cast<const YamlNode*>(this)->Find(key));
}

std::unique_ptr<YamlNode> ParseYaml(absl::string_view text, Problems& problems,
                                    const FileKind& kind) {
  if (!Prescan(text, problems, kind)) return nullptr;
  if (absl::StartsWith(text, "\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
  TreeBuilder builder(text, kind, problems);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return std::make_unique<YamlNode>();
    if (builder.open_quote()) return nullptr;
    std::unique_ptr<YamlNode> root = builder.TakeRoot();
    Problems ignored(problems.file());
    TreeBuilder rest(text, kind, ignored);
    bool second = false;
    try {
      second = parser.HandleNextDocument(rest);
    } catch (const YAML::Exception& error) {
      problems.Add({Clamp(ToPosition(error.mark), text), "",
                    absl::StrCat("not YAML: ", Explain(error.msg), " (or a second document)"),
                    "correct it"});
    }
    if (second) {
      problems.Add({Clamp(rest.start(), text), "", "a second document",
                    absl::StrCat("put one ", kind.name, " in one file")});
    }
    return root == nullptr ? std::make_unique<YamlNode>() : std::move(root);
  } catch (const YAML::Exception& error) {
    problems.Add({Clamp(ToPosition(error.mark), text), "",
                  absl::StrCat("not YAML: ", Explain(error.msg)), "correct it"});
  } catch (const std::exception& error) {
    problems.Add(
        {Position{}, "", absl::StrCat("not YAML: ", Shown(error.what(), 200)), "correct it"});
  }
  return nullptr;
}

}  // namespace strata::spec
