#include "device/standin/ptx_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace strata::standin {
namespace {

bool IsNamePart(char c) { return absl::ascii_isalnum(c) || c == '_' || c == '$' || c == '%'; }

std::string Trim(std::string_view text) {
  return std::string(absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size())));
}

int64_t ToNumber(const std::string& text) { return std::strtoll(text.c_str(), nullptr, 0); }

// Comments replaced by spaces.
std::string WithoutComments(std::string_view text) {
  std::string out(text);
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] == '"') i = std::min(out.find('"', i + 1), out.size());  // a path has slashes too
    if (i + 1 >= out.size() || out[i] != '/' || (out[i + 1] != '/' && out[i + 1] != '*')) {
      continue;
    }
    const bool line = out[i + 1] == '/';
    size_t end = line ? out.find('\n', i) : out.find("*/", i);
    end = end == std::string::npos ? out.size() : end + (line ? 0 : 2);
    std::fill(out.begin() + i, out.begin() + end, ' ');
    i = end;
  }
  return out;
}

// Names of registers and labels, by block in braces.
struct Scope {
  std::map<std::string, int> registers;
  std::vector<std::string> prefixes;  // of `.reg .f32 %f<11>`
  std::map<std::string, int> labels;  // statement
};

class Parser {
 public:
  Parser(std::string_view text, Findings& findings)
      : text_(WithoutComments(text)), findings_(findings) {}

  absl::StatusOr<PtxModule> Parse();

 private:
  struct Branch {
    int statement;
    std::string label;
    std::vector<std::shared_ptr<Scope>> scopes;
  };

  bool SkipSpace();
  std::string Until(char end);  // at depth 0 of braces; `end` is consumed
  std::string Line();
  void SkipBraces();  // to behind the next block
  void ReadFiles();
  absl::Status Entry(const std::string& head);
  absl::Status Body(PtxFunction& function);
  absl::Status Statement(PtxFunction& function, std::string text);
  absl::Status ResolveBranches(PtxFunction& function);
  void Declare(PtxFunction& function, const std::string& text);
  void Location(const std::string& line);
  static PtxVariable Variable(std::string text);
  std::string Resolve(PtxFunction& function, const std::string& operand);
  int Register(PtxFunction& function, const std::string& name);

  std::string text_;
  Findings& findings_;
  size_t at_ = 0;
  PtxModule module_;
  std::map<int, std::string> files_;
  std::vector<std::shared_ptr<Scope>> scopes_;
  std::vector<Branch> branches_;
  Site site_ = 0;
};

bool Parser::SkipSpace() {
  while (at_ < text_.size() && (absl::ascii_isspace(text_[at_]) || text_[at_] == ';')) ++at_;
  return at_ < text_.size() && text_[at_] != '\0';
}

std::string Parser::Until(char end) {
  const size_t begin = at_;
  int depth = 0;
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == end && depth == 0) break;
    depth += (c == '{') - (c == '}');
  }
  std::string found = Trim(std::string_view(text_).substr(begin, at_ - begin));
  if (at_ < text_.size()) ++at_;
  return found;
}

std::string Parser::Line() {
  const size_t begin = at_, end = std::min(text_.find('\n', at_), text_.size());
  at_ = end;
  return Trim(std::string_view(text_).substr(begin, end - begin));
}

void Parser::SkipBraces() {
  at_ = std::min(text_.find('{', at_), text_.size());
  for (int depth = 0; at_ < text_.size(); ++at_) {
    depth += (text_[at_] == '{') - (text_[at_] == '}');
    if (depth == 0) break;
  }
  if (at_ < text_.size()) ++at_;
}

// `.file 1 "kernels/cuda/x.cu"`, which stand at the end of a module.
void Parser::ReadFiles() {
  for (size_t at = text_.find(".file"); at != std::string::npos; at = text_.find(".file", at + 1)) {
    const size_t open = text_.find('"', at), close = text_.find('"', open + 1);
    if (close == std::string::npos) return;
    files_[std::atoi(text_.c_str() + at + 5)] = text_.substr(open + 1, close - open - 1);
  }
}

// `.loc 2 563 3, function_name $L__info_string0, inlined_at 1 62 5`: of code inlined from a system
// header the place that called it, else the place itself.
void Parser::Location(const std::string& line) {
  const auto place = [&](size_t at) {
    char* end = nullptr;
    const int file = static_cast<int>(std::strtol(line.c_str() + at, &end, 10));
    return std::make_pair(file, std::strtol(end, nullptr, 10));
  };
  auto [file, number] = place(4);
  const size_t inlined = line.find("inlined_at ");
  const std::string& path = files_[file];
  if (inlined != std::string::npos &&
      (absl::StartsWith(path, "/usr/") || absl::StrContains(path, "/include/"))) {
    std::tie(file, number) = place(inlined + 11);
  }
  if (number == 0) return;  // the compiler's own
  const std::string& name = files_[file];
  const size_t slash = name.rfind('/');
  site_ = findings_.SiteOf(
      absl::StrCat(slash == std::string::npos ? name : name.substr(slash + 1), ":", number));
}

// `.param .align 8 .b8 name[776]`, `.global .u32 counter`, `.const .b8 t[2] = {1, 2}`.
PtxVariable Parser::Variable(std::string text) {
  PtxVariable variable;
  if (const size_t equals = text.find('='); equals != std::string::npos) {
    std::string values = text.substr(equals + 1);
    values.erase(std::remove_if(values.begin(), values.end(),
                                [](char c) { return c == '{' || c == '}' || c == ' '; }),
                 values.end());
    for (const auto value : absl::StrSplit(values, ',')) {
      variable.values.push_back(std::strtoull(std::string(value).c_str(), nullptr, 0));
    }
    text.resize(equals);
  }
  uint64_t count = 1;
  if (const size_t open = text.find('['); open != std::string::npos) {
    count = std::strtoull(text.c_str() + open + 1, nullptr, 0);
    text.resize(open);
  }
  const std::vector<std::string> words =
      absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
  for (size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == ".align") variable.align = ToNumber(words[i + 1]);
    if (word == ".extern") variable.is_external = true;
    if (word.size() > 2 && absl::StrContains("busf", word.substr(1, 1)) &&
        absl::ascii_isdigit(word[2])) {
      variable.element_bytes = ToNumber(word.substr(2)) / 8;
    }
  }
  variable.align = std::max(variable.align, variable.element_bytes);
  variable.name = words.empty() ? "" : words.back();
  variable.bytes = count * variable.element_bytes;
  return variable;
}

int Parser::Register(PtxFunction& function, const std::string& name) {
  std::string prefix = name;
  while (!prefix.empty() && absl::ascii_isdigit(prefix.back())) prefix.pop_back();
  for (size_t i = scopes_.size(); i > 0; --i) {
    Scope& scope = *scopes_[i - 1];
    if (const auto found = scope.registers.find(name); found != scope.registers.end()) {
      return found->second;
    }
    if (std::count(scope.prefixes.begin(), scope.prefixes.end(), prefix) != 0) {
      return scope.registers[name] = function.registers++;
    }
  }
  return -1;
}

// Replaces the names of registers by their numbers.
std::string Parser::Resolve(PtxFunction& function, const std::string& operand) {
  std::string out;
  for (size_t i = 0; i < operand.size();) {
    if (absl::ascii_isspace(operand[i])) {
      ++i;
      continue;
    }
    if (!IsNamePart(operand[i]) || absl::ascii_isdigit(operand[i])) {
      // Numbers are taken whole: the x of 0x10 is no name.
      const bool number = absl::ascii_isdigit(operand[i]);
      do out += operand[i++];
      while (number && i < operand.size() && absl::ascii_isalnum(operand[i]));
      continue;
    }
    const size_t begin = i;
    while (i < operand.size() && (IsNamePart(operand[i]) || operand[i] == '.')) ++i;
    const std::string name = operand.substr(begin, i - begin);
    const int number = Register(function, name);
    absl::StrAppend(&out, number >= 0 ? absl::StrCat("$", number) : name);
  }
  return out;
}

void Parser::Declare(PtxFunction& function, const std::string& text) {
  if (absl::StartsWith(text, ".shared")) {
    function.shared.push_back(Variable(text));
  } else if (absl::StartsWith(text, ".local")) {
    function.local.push_back(Variable(text));
  } else if (absl::StartsWith(text, ".reg")) {
    std::string names = Trim(text.substr(4));
    names = Trim(names.substr(names.find_first_of(" \t")));  // behind the type
    for (const auto piece : absl::StrSplit(names, ',')) {
      const std::string name = Trim(std::string(piece));
      if (const size_t open = name.find('<'); open != std::string::npos) {
        scopes_.back()->prefixes.push_back(name.substr(0, open));
      } else {
        scopes_.back()->registers[name] = function.registers++;
      }
    }
  }
}

absl::Status Parser::Statement(PtxFunction& function, std::string text) {
  PtxStatement statement;
  statement.site = site_;
  if (text[0] == '@') {
    statement.guard_not = text[1] == '!';
    const size_t begin = statement.guard_not ? 2 : 1, end = text.find_first_of(" \t", begin);
    statement.guard = Register(function, text.substr(begin, end - begin));
    if (statement.guard < 0) return absl::InvalidArgumentError(absl::StrCat("guard of ", text));
    text = Trim(text.substr(end));
  }
  const size_t space = text.find_first_of(" \t\n");
  statement.opcode = text.substr(0, space);
  std::string rest = space == std::string::npos ? "" : Trim(text.substr(space));
  if (absl::StartsWith(statement.opcode, "bra")) {
    branches_.push_back({static_cast<int>(function.statements.size()), rest, scopes_});
  } else if (!rest.empty()) {
    int depth = 0;
    std::string operand;
    for (const char c : rest + ",") {
      depth += (c == '{' || c == '[' || c == '(') - (c == '}' || c == ']' || c == ')');
      if (c == ',' && depth == 0) {
        statement.operands.push_back(Resolve(function, operand));
        operand.clear();
      } else {
        operand += c;
      }
    }
  }
  function.statements.push_back(std::move(statement));
  return absl::OkStatus();
}

absl::Status Parser::ResolveBranches(PtxFunction& function) {
  for (const Branch& branch : branches_) {
    for (size_t i = branch.scopes.size(); i > 0; --i) {
      const auto found = branch.scopes[i - 1]->labels.find(branch.label);
      if (found == branch.scopes[i - 1]->labels.end()) continue;
      function.statements[branch.statement].target = found->second;
      break;
    }
    if (function.statements[branch.statement].target < 0) {
      return absl::InvalidArgumentError(absl::StrCat("no label ", branch.label));
    }
  }
  branches_.clear();
  return absl::OkStatus();
}

// Behind the opening brace.
absl::Status Parser::Body(PtxFunction& function) {
  scopes_.assign(1, std::make_shared<Scope>());
  site_ = 0;
  while (SkipSpace()) {
    if (text_[at_] == '{') {
      scopes_.push_back(std::make_shared<Scope>());
      ++at_;
      continue;
    }
    if (text_[at_] == '}') {
      scopes_.pop_back();
      ++at_;
      if (scopes_.empty()) return ResolveBranches(function);
      continue;
    }
    if (text_.compare(at_, 4, ".loc") == 0 && absl::ascii_isspace(text_[at_ + 4])) {
      Location(Line());
      continue;
    }
    size_t end = at_;
    while (end < text_.size() && IsNamePart(text_[end])) ++end;
    if (end > at_ && end < text_.size() && text_[end] == ':' && text_[end + 1] != ':') {
      scopes_.back()->labels[text_.substr(at_, end - at_)] =
          static_cast<int>(function.statements.size());
      at_ = end + 1;
      continue;
    }
    const std::string text = Until(';');
    if (text[0] == '.') {
      Declare(function, text);
    } else if (absl::Status status = Statement(function, text); !status.ok()) {
      return status;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("no end of ", function.name));
}

// `.visible .entry name( .param …, .param … ) .maxntid 128, 1, 1`
absl::Status Parser::Entry(const std::string& head) {
  const size_t name = head.find(".entry") + 6, open = head.find('(', name);
  PtxFunction function;
  function.name = Trim(head.substr(name, open - name));
  if (open != std::string::npos) {
    const size_t close = head.find(')', open);
    for (const auto piece : absl::StrSplit(head.substr(open + 1, close - open - 1), ',')) {
      const std::string text = Trim(std::string(piece));
      if (!text.empty()) function.parameters.push_back(Variable(text));
    }
  }
  if (const size_t most = head.find(".maxntid"); most != std::string::npos) {
    function.most_threads = 1;
    for (const auto part : absl::StrSplit(head.substr(most + 8, 60), ',')) {
      const std::string number = Trim(std::string(part));
      if (number.empty() || !absl::ascii_isdigit(number[0])) break;
      function.most_threads *= ToNumber(number);
      if (number.find_first_not_of("0123456789") != std::string::npos) break;
    }
  }
  if (absl::Status status = Body(function); !status.ok()) return status;
  std::string key = function.name;
  module_.entries.emplace(std::move(key), std::move(function));
  return absl::OkStatus();
}

absl::StatusOr<PtxModule> Parser::Parse() {
  ReadFiles();
  while (SkipSpace()) {
    const auto starts = [&](const char* word) {
      return text_.compare(at_, std::string_view(word).size(), word) == 0;
    };
    if (starts(".version") || starts(".target") || starts(".address_size") || starts(".file")) {
      Line();
      continue;
    }
    if (starts(".section")) {
      SkipBraces();
      continue;
    }
    const size_t stop = text_.find_first_of(";{=", at_);
    if (stop == std::string::npos) break;
    const std::string head = text_.substr(at_, stop - at_);
    if (absl::StrContains(head, ".entry")) {
      at_ = stop + 1;
      if (text_[stop] != '{') continue;  // a declaration
      if (absl::Status status = Entry(head); !status.ok()) return status;
    } else if (absl::StrContains(head, ".func") && text_[stop] == '{') {
      SkipBraces();  // calls are not supported: whoever comes to one is told
    } else {
      const std::string text = Until(';');
      if (absl::StrContains(head, ".shared")) module_.shared.push_back(Variable(text));
      if (absl::StrContains(head, ".global ") || absl::StrContains(head, ".const ")) {
        module_.global.push_back(Variable(text));
      }
    }
  }
  return std::move(module_);
}

}  // namespace

std::string PtxStatement::Text() const {
  return operands.empty() ? opcode : absl::StrCat(opcode, " ", absl::StrJoin(operands, ", "));
}

absl::StatusOr<PtxModule> ParsePtx(std::string_view text, Findings& findings) {
  return Parser(text, findings).Parse();
}

}  // namespace strata::standin
