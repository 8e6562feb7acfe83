#include "client/command_line/parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "spec/problems.h"
#include "spec/scalars.h"
#include "spec/suggest.h"

namespace strata::client {
namespace {

using spec::Shown;

std::string MissingText(const Command& command, const std::string& argument) {
  return absl::StrCat("strata ", command.name, ": ", argument,
                      " is missing — usage: ", UsageOf(command));
}

absl::StatusOr<double> SecondsIn(const std::string& text) {
  ASSIGN_OR_RETURN(const absl::Duration time, ParseTime(text));
  return absl::ToDoubleSeconds(time);
}

// What a count, a number or a time is worth.
absl::StatusOr<double> ValueOf(const Flag& flag, const std::string& text) {
  if (flag.kind == Flag::Kind::kTime) return SecondsIn(text);
  if (flag.kind == Flag::Kind::kNumber) return spec::ParseNumber(text);
  ASSIGN_OR_RETURN(const int64_t count, spec::ParseCount(text));
  return static_cast<double>(count);
}

std::string BoundText(const Flag& flag, double value) {
  if (flag.kind == Flag::Kind::kTime) return spec::DurationText(absl::Seconds(value));
  if (flag.kind == Flag::Kind::kCount) return absl::StrCat(static_cast<int64_t>(value));
  return spec::ShortestNumber(value);
}

std::string RangeText(const Flag& flag) {
  std::string text;
  if (flag.least > -std::numeric_limits<double>::infinity()) {
    text = absl::StrCat("at least ", BoundText(flag, flag.least));
  }
  if (flag.most < std::numeric_limits<double>::infinity()) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", "at most ", BoundText(flag, flag.most));
  }
  return text;
}

// In place of the common flag of that name.
bool HasOwn(const Command& command, absl::string_view name) {
  return std::any_of(command.flags.begin(), command.flags.end(),
                     [&](const Flag& flag) { return flag.name == name; });
}

class Parser {
 public:
  Parser(const Command& command, const std::vector<std::string>& typed)
      : command_(command), typed_(typed) {}

  absl::StatusOr<Arguments> Parse() {
    bool only_positional = false;
    while (next_ < typed_.size()) {
      const std::string word = typed_[next_++];
      if (!only_positional && word == "--") {
        only_positional = true;
      } else if (!only_positional && word.size() > 1 && word[0] == '-') {
        ReadFlag(word);
      } else {
        arguments_.AddPositional(word);
      }
    }
    if (arguments_.Has("--help")) return arguments_;
    CheckComplete();
    if (problems_.empty()) return arguments_;
    return absl::InvalidArgumentError(absl::StrCat(absl::StrJoin(problems_, "\n"), "\n"));
  }

 private:
  void Refuse(const std::string& what) {
    problems_.push_back(absl::StrCat("strata ", command_.name, ": ", what));
  }

  const Flag* FindFlag(absl::string_view name) const {
    for (const auto* flags : {&command_.flags, &CommonFlags()}) {
      for (const Flag& flag : *flags) {
        if (flag.name == name || (!flag.short_name.empty() && flag.short_name == name))
          return &flag;
      }
    }
    return nullptr;
  }

  void ReadFlag(const std::string& word) {
    const bool is_long = absl::StartsWith(word, "--");
    const size_t equals = word.find('=');
    const std::string name = is_long ? word.substr(0, equals) : word.substr(0, 2);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) return RefuseUnknown(name);
    std::optional<std::string> value;
    if (is_long && equals != std::string::npos) value = word.substr(equals + 1);
    if (!is_long && word.size() > 2) value = word.substr(word[2] == '=' ? 3 : 2);
    if (flag->kind == Flag::Kind::kSwitch) {
      if (value.has_value()) return Refuse(absl::StrCat(name, " takes no value"));
      return arguments_.Add(flag->name, "");
    }
    if (!value.has_value()) {
      if (next_ >= typed_.size())
        return Refuse(absl::StrCat(name, " needs a value: ", name, " ", flag->value_name));
      value = typed_[next_++];
    }
    if (!flag->repeated && arguments_.Has(flag->name)) {
      return Refuse(absl::StrCat(name, " is given twice"));
    }
    if (CheckValue(*flag, *value)) arguments_.Add(flag->name, *value);
  }

  void RefuseUnknown(const std::string& name) {
    std::vector<std::string> names;
    for (const auto* flags : {&command_.flags, &CommonFlags()}) {
      for (const Flag& flag : *flags) names.push_back(flag.name);
    }
    const std::string nearest = spec::Nearest(name, names);
    Refuse(absl::StrCat("unknown flag ", Shown(name), " — ",
                        nearest.empty() ? absl::StrCat("see strata ", command_.name, " --help")
                                        : absl::StrCat("did you mean ", nearest, "?")));
    // Its value, if it has one, is not a positional argument.
    const bool valued = next_ < typed_.size() && typed_[next_][0] != '-';
    if (valued && !nearest.empty() && FindFlag(nearest)->kind != Flag::Kind::kSwitch) ++next_;
  }

  bool CheckValue(const Flag& flag, const std::string& value) {
    const std::string given = absl::StrCat(flag.name, " ", Shown(value));
    if (flag.kind == Flag::Kind::kText) {
      const bool good = flag.may_be_empty || !value.empty();
      if (!good) Refuse(absl::StrCat(flag.name, " needs a value"));
      return good;
    }
    if (flag.kind == Flag::Kind::kWord) return CheckWord(WordsOf(flag), given, value);
    const absl::StatusOr<double> number = ValueOf(flag, value);
    if (!number.ok()) {
      Refuse(absl::StrCat(given, ": ", absl::string_view(number.status().message())));
      return false;
    }
    if (*number >= flag.least && *number <= flag.most) return true;
    Refuse(absl::StrCat(given, ": must be ", RangeText(flag)));
    return false;
  }

  // Of `-o`, those that the command knows.
  const std::vector<std::string>& WordsOf(const Flag& flag) const {
    return &flag == FindFlag("--output") && !HasOwn(command_, "--output") ? command_.outputs
                                                                          : flag.words;
  }

  bool CheckWord(const std::vector<std::string>& words, const std::string& given,
                 const std::string& value) {
    if (std::find(words.begin(), words.end(), value) != words.end()) return true;
    const std::string nearest = spec::Nearest(value, words);
    Refuse(absl::StrCat(given, ": unknown value (the values here are ", absl::StrJoin(words, ", "),
                        ")",
                        nearest.empty() ? "" : absl::StrCat(" — did you mean ", nearest, "?")));
    return false;
  }

  void CheckComplete() {
    const auto& positional = arguments_.positional();
    for (size_t i = positional.size(); i < command_.arguments.size(); ++i) {
      problems_.push_back(MissingText(command_, command_.arguments[i]));
    }
    for (size_t i = command_.most_arguments; i < positional.size(); ++i) {
      Refuse(absl::StrCat("unexpected argument ", Shown(positional[i]),
                          " — usage: ", UsageOf(command_)));
    }
    for (const Flag& flag : command_.flags) {
      if (flag.required && !arguments_.Has(flag.name) && problems_.empty()) {
        problems_.push_back(MissingText(command_, flag.name));
      }
    }
  }

  const Command& command_;
  const std::vector<std::string>& typed_;
  size_t next_ = 0;
  Arguments arguments_;
  std::vector<std::string> problems_;
};

// "a, b or c"
std::string Alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  return text;
}

std::string FlagLine(const Flag& flag) {
  std::string left = flag.short_name.empty() ? "" : flag.short_name + ", ";
  absl::StrAppend(&left, flag.name, flag.value_name.empty() ? "" : " ", flag.value_name);
  return absl::StrFormat("  %-28s %s\n", left, flag.help);
}

}  // namespace

std::string Arguments::Text(absl::string_view flag, absl::string_view otherwise) const {
  const auto found = values_.find(std::string(flag));
  return found == values_.end() ? std::string(otherwise) : found->second.back();
}

std::vector<std::string> Arguments::All(absl::string_view flag) const {
  const auto found = values_.find(std::string(flag));
  return found == values_.end() ? std::vector<std::string>() : found->second;
}

std::optional<int64_t> Arguments::Count(absl::string_view flag) const {
  if (!Has(flag)) return std::nullopt;
  const auto value = spec::ParseCount(Text(flag));
  return value.ok() ? std::optional<int64_t>(*value) : std::nullopt;
}

std::optional<double> Arguments::Number(absl::string_view flag) const {
  if (!Has(flag)) return std::nullopt;
  const auto value = spec::ParseNumber(Text(flag));
  return value.ok() ? std::optional<double>(*value) : std::nullopt;
}

std::optional<double> Arguments::Seconds(absl::string_view flag) const {
  if (!Has(flag)) return std::nullopt;
  const auto value = SecondsIn(Text(flag));
  return value.ok() ? std::optional<double>(*value) : std::nullopt;
}

absl::StatusOr<absl::Duration> ParseTime(const std::string& text) {
  const bool bare = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  return spec::ParseDuration(bare ? absl::StrCat(text, "s") : text);
}

const std::vector<Flag>& CommonFlags() {
  static const auto& flags = *new std::vector<Flag>{
      {"--output", Flag::Kind::kWord, "FORMAT", "table, json, yaml or name", "-o", 0, 0},
      {"--server", Flag::Kind::kText, "ADDR",
       "the controller, HOST:PORT or unix:PATH (else STRATA_SERVER, else the last `strata up`)"},
      {"--no-color", Flag::Kind::kSwitch, "", "no colours (also NO_COLOR)"},
      {"--quiet", Flag::Kind::kSwitch, "", "results and errors only", "-q"},
      {"--help", Flag::Kind::kSwitch, "", "this text", "-h"},
  };
  return flags;
}

absl::StatusOr<Arguments> ParseArguments(const Command& command,
                                         const std::vector<std::string>& typed) {
  return Parser(command, typed).Parse();
}

absl::StatusOr<const Command*> FindCommand(const std::vector<Command>& commands,
                                           const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (command.name == name) return &command;
    if (command.listed) names.push_back(command.name);
  }
  const std::string nearest = spec::Nearest(name, names);
  return absl::InvalidArgumentError(absl::StrCat("strata: unknown command ", Shown(name), " — ",
                                                 nearest.empty()
                                                     ? std::string("see strata --help")
                                                     : absl::StrCat("did you mean ", nearest, "?"),
                                                 "\n"));
}

std::string UsageOf(const Command& command) {
  return absl::StrCat("strata ", command.name, command.usage.empty() ? "" : " ", command.usage);
}

std::string HelpOf(const Command& command) {
  std::string text = absl::StrCat("Usage: ", UsageOf(command), "\n\n", command.summary, ".\n");
  if (!command.flags.empty()) absl::StrAppend(&text, "\nFlags:\n");
  for (const Flag& flag : command.flags) absl::StrAppend(&text, FlagLine(flag));
  absl::StrAppend(&text, "\nCommon flags:\n");
  for (Flag flag : CommonFlags()) {
    if (HasOwn(command, flag.name)) continue;
    if (flag.name == "--output") flag.help = Alternatives(command.outputs);
    absl::StrAppend(&text, FlagLine(flag));
  }
  return text;
}

std::string HelpOf(const std::vector<Command>& commands) {
  std::string text =
      "Strata trains language models that do not fit, on the cluster you have.\n\n"
      "Usage: strata COMMAND …\n\nCommands:\n";
  int width = 0;
  for (const Command& command : commands) {
    if (command.listed) width = std::max(width, static_cast<int>(command.name.size()));
  }
  for (const Command& command : commands) {
    if (!command.listed) continue;
    absl::StrAppendFormat(&text, "  %-*s  %s\n", width, command.name, command.summary);
  }
  absl::StrAppend(&text,
                  "\nstrata COMMAND --help tells more; strata --version its version.\n"
                  "Exit codes: 0 done, 1 failed, 2 usage or invalid file, 3 infeasible, "
                  "4 not allowed,\n5 not found, 6 unavailable or timed out, 130 interrupted.\n");
  return text;
}

}  // namespace strata::client
