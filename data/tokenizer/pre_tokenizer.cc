#include "data/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/unicode.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

// Steps call each other: a file must not make that too deep.
constexpr size_t kMostSteps = 64;

absl::Status GetCharacter(const Json& json, const char* key, char32_t* code) {
  std::string text;
  RETURN_IF_ERROR(GetText(json, key, &text));
  if (text.empty()) return absl::OkStatus();
  if (CountCharacters(text) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not one character"));
  }
  *code = DecodeAt(text.data()).code;
  return absl::OkStatus();
}

absl::Status Unsupported(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat(what, " is not supported"));
}

}  // namespace

// Makes pieces of a text from what matches in it and what does not, from left to right.
class PreTokenizer::Divider {
 public:
  Divider(const Step& step, Piece whole, absl::FunctionRef<absl::Status(Piece piece)> sink)
      : behaviour_(step.behaviour), invert_(step.invert), whole_(whole), sink_(sink) {}

  void Add(size_t begin, size_t end, bool match) {
    match = match != invert_;
    switch (behaviour_) {
      case Behaviour::kIsolated:
        Emit(begin, end);
        break;
      case Behaviour::kRemoved:
        if (!match) Emit(begin, end);
        break;
      case Behaviour::kContiguous:
        Join(begin, end, match == previous_match_);
        break;
      case Behaviour::kMergedWithPrevious:
        Join(begin, end, match && !previous_match_);
        break;
      case Behaviour::kMergedWithNext:
        Join(begin, end, previous_match_ && !match);
        break;
    }
    previous_match_ = match;
  }

  absl::Status Finish() {
    if (holds_) Emit(held_begin_, held_end_);
    return status_;
  }

 private:
  // Adds to the piece before, or begins the next.
  void Join(size_t begin, size_t end, bool with_previous) {
    if (holds_ && with_previous) {
      held_end_ = end;
      return;
    }
    if (holds_) Emit(held_begin_, held_end_);
    holds_ = true;
    held_begin_ = begin;
    held_end_ = end;
  }
  void Emit(size_t begin, size_t end) {
    if (begin == end || !status_.ok()) return;
    status_ = sink_({whole_.text.substr(begin, end - begin), whole_.is_start && begin == 0});
  }

  const Behaviour behaviour_;
  const bool invert_;
  const Piece whole_;
  const absl::FunctionRef<absl::Status(Piece piece)> sink_;
  bool previous_match_ = false;
  bool holds_ = false;  // the piece that may still grow
  size_t held_begin_ = 0, held_end_ = 0;
  absl::Status status_;
};

absl::StatusOr<Metaspace> Metaspace::FromJson(const Json& json) {
  Metaspace metaspace;
  RETURN_IF_ERROR(GetCharacter(json, "replacement", &metaspace.replacement));
  RETURN_IF_ERROR(GetBool(json, "split", &metaspace.split));
  std::string scheme = "always";
  RETURN_IF_ERROR(GetText(json, "prepend_scheme", &scheme));
  if (scheme == "first") {
    metaspace.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    metaspace.prepend = Prepend::kNever;
  } else if (scheme != "always") {
    return Unsupported(absl::StrCat("Metaspace with prepend_scheme \"", scheme, "\""));
  }
  bool add_prefix_space = true;
  RETURN_IF_ERROR(GetBool(json, "add_prefix_space", &add_prefix_space));
  if (!add_prefix_space && metaspace.prepend != Prepend::kNever) {
    return absl::InvalidArgumentError(
        "Metaspace: add_prefix_space is false, but prepend_scheme is not \"never\"");
  }
  return metaspace;
}

absl::StatusOr<PreTokenizer> PreTokenizer::FromJson(const Json& json) {
  PreTokenizer pre_tokenizer;
  if (!json.is_null()) RETURN_IF_ERROR(pre_tokenizer.AddSteps(json));
  return pre_tokenizer;
}

absl::Status PreTokenizer::AddSteps(const Json& json) {
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "pre_tokenizer"));
  if (type == "Sequence") {
    const Json* const items = Field(json, "pretokenizers");
    if (items == nullptr || !items->is_array()) {
      return absl::InvalidArgumentError("pre_tokenizer Sequence: \"pretokenizers\" is not a list");
    }
    for (const Json& item : *items) RETURN_IF_ERROR(AddSteps(item));
    return absl::OkStatus();
  }
  if (type == "ByteLevel") return AddByteLevel(json);
  if (type == "Split") return AddSplit(json);
  if (type == "Metaspace") return AddMetaspace(json);
  if (type == "Digits") return AddDigits(json);
  if (type == "Punctuation") {
    ASSIGN_OR_RETURN(const Behaviour behaviour, BehaviourOf(json, Behaviour::kIsolated));
    return AddCharacters(CharacterClass::kPunctuation, behaviour, 0);
  }
  if (type == "WhitespaceSplit") {
    return AddCharacters(CharacterClass::kWhiteSpace, Behaviour::kRemoved, 0);
  }
  if (type == "CharDelimiterSplit") {
    char32_t delimiter = 0;
    RETURN_IF_ERROR(GetCharacter(json, "delimiter", &delimiter));
    return AddCharacters(CharacterClass::kDelimiter, Behaviour::kRemoved, delimiter);
  }
  if (type == "Whitespace") {
    Step step;
    step.kind = Kind::kWords;
    return Add(std::move(step));
  }
  return Unsupported(absl::StrCat("pre_tokenizer ", type));
}

absl::Status PreTokenizer::Add(Step step) {
  if (steps_.size() == kMostSteps) {
    return Unsupported(absl::StrCat("a pre_tokenizer of more than ", kMostSteps, " steps"));
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status PreTokenizer::AddByteLevel(const Json& json) {
  bool add_prefix_space = true, use_regex = true;
  RETURN_IF_ERROR(GetBool(json, "add_prefix_space", &add_prefix_space));
  RETURN_IF_ERROR(GetBool(json, "use_regex", &use_regex));
  // Each time it makes a text up to twice as long.
  for (const Step& before : steps_) {
    if (before.kind == Kind::kByteCharacters) return Unsupported("ByteLevel after ByteLevel");
  }
  Step step;
  step.kind = Kind::kPrefixSpace;
  if (add_prefix_space) RETURN_IF_ERROR(Add(step));
  step.kind = Kind::kKnownPattern;
  if (use_regex) RETURN_IF_ERROR(Add(step));
  step.kind = Kind::kByteCharacters;
  return Add(step);
}

absl::Status PreTokenizer::AddSplit(const Json& json) {
  Step step;
  ASSIGN_OR_RETURN(step.pattern, Pattern::FromJson(json));
  ASSIGN_OR_RETURN(step.behaviour, BehaviourOf(json, Behaviour::kIsolated));
  RETURN_IF_ERROR(GetBool(json, "invert", &step.invert));
  // Known patterns match everything: keeping just the matches is keeping all.
  const bool keeps_all = step.behaviour == Behaviour::kIsolated ||
                         (step.behaviour == Behaviour::kRemoved && step.invert);
  const std::optional<KnownPattern> known = KnownPatternOf(step.pattern.regex());
  if (known.has_value() && keeps_all) {
    step = Step();
    step.kind = Kind::kKnownPattern;
    step.known = *known;
  }
  return Add(std::move(step));
}

absl::Status PreTokenizer::AddMetaspace(const Json& json) {
  Step step;
  step.kind = Kind::kMetaspace;
  ASSIGN_OR_RETURN(step.metaspace, Metaspace::FromJson(json));
  const Metaspace metaspace = step.metaspace;
  RETURN_IF_ERROR(Add(std::move(step)));
  if (!metaspace.split) return absl::OkStatus();
  return AddCharacters(CharacterClass::kDelimiter, Behaviour::kMergedWithNext,
                       metaspace.replacement);
}

absl::Status PreTokenizer::AddDigits(const Json& json) {
  bool individual = false;
  RETURN_IF_ERROR(GetBool(json, "individual_digits", &individual));
  return AddCharacters(CharacterClass::kNumeric,
                       individual ? Behaviour::kIsolated : Behaviour::kContiguous, 0);
}

absl::Status PreTokenizer::AddCharacters(CharacterClass characters, Behaviour behaviour,
                                         char32_t delimiter) {
  Step step;
  step.kind = Kind::kCharacters;
  step.characters = characters;
  step.behaviour = behaviour;
  step.delimiter = delimiter;
  return Add(std::move(step));
}

absl::StatusOr<PreTokenizer::Behaviour> PreTokenizer::BehaviourOf(const Json& json,
                                                                  Behaviour otherwise) {
  std::string name;
  RETURN_IF_ERROR(GetText(json, "behavior", &name));
  if (name.empty()) return otherwise;
  const std::pair<const char*, Behaviour> names[] = {
      {"Removed", Behaviour::kRemoved},
      {"Isolated", Behaviour::kIsolated},
      {"MergedWithPrevious", Behaviour::kMergedWithPrevious},
      {"MergedWithNext", Behaviour::kMergedWithNext},
      {"Contiguous", Behaviour::kContiguous}};
  for (const auto& [known, behaviour] : names) {
    if (name == known) return behaviour;
  }
  return Unsupported(absl::StrCat("the behavior ", name, " of a pre_tokenizer"));
}

bool PreTokenizer::ends_with_bytes() const {
  return !steps_.empty() && steps_.back().kind == Kind::kByteCharacters;
}

void PreTokenizer::LeaveBytes() { steps_.pop_back(); }

std::optional<KnownPattern> PreTokenizer::only_pattern() const {
  if (steps_.size() != 1 || steps_[0].kind != Kind::kKnownPattern) return std::nullopt;
  return steps_[0].known;
}

absl::Status PreTokenizer::Split(Piece piece, std::vector<std::string>* texts,
                                 WordSink word) const {
  if (texts->size() < steps_.size()) texts->resize(steps_.size());
  return Run(0, piece, texts, word);
}

absl::Status PreTokenizer::Run(size_t index, Piece piece, std::vector<std::string>* texts,
                               WordSink word) const {
  if (index == steps_.size()) {
    word(piece.text);
    return absl::OkStatus();
  }
  const Step& step = steps_[index];
  switch (step.kind) {
    case Kind::kPrefixSpace:
    case Kind::kByteCharacters:
    case Kind::kMetaspace: {
      // One text for a step is enough: a piece is done with before the next one comes.
      std::string& text = (*texts)[index];
      text.clear();
      if (Rewrite(step, piece, &text)) piece.text = text;
      return Run(index + 1, piece, texts, word);
    }
    default:
      break;
  }
  const auto go_on = [&](Piece part) { return Run(index + 1, part, texts, word); };
  Divider divider(step, piece, go_on);
  RETURN_IF_ERROR(Divide(step, piece.text, &divider));
  return divider.Finish();
}

absl::Status PreTokenizer::Divide(const Step& step, std::string_view text, Divider* divider) {
  switch (step.kind) {
    case Kind::kKnownPattern: {
      const char* const end = text.data() + text.size();
      for (const char* at = text.data(); at < end;) {
        const char* const next = EndOfMatch(step.known, at, end);
        divider->Add(static_cast<size_t>(at - text.data()), static_cast<size_t>(next - text.data()),
                     true);
        at = next;
      }
      return absl::OkStatus();
    }
    case Kind::kCharacters:
      DivideByCharacters(step, text, divider);
      return absl::OkStatus();
    case Kind::kWords:
      DivideIntoWords(text, divider);
      return absl::OkStatus();
    default:
      break;
  }
  size_t done = 0;
  RETURN_IF_ERROR(step.pattern.FindAll(text, [&](size_t begin, size_t end) {
    if (done < begin) divider->Add(done, begin, false);
    divider->Add(begin, end, true);
    done = end;
  }));
  if (done < text.size()) divider->Add(done, text.size(), false);
  return absl::OkStatus();
}

void PreTokenizer::DivideByCharacters(const Step& step, std::string_view text, Divider* divider) {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = DecodeAt(text.data() + at);
    if (Matches(step, c.code)) {
      if (done < at) divider->Add(done, at, false);
      divider->Add(at, at + c.size, true);
      done = at + c.size;
    }
    at += c.size;
  }
  if (done < text.size()) divider->Add(done, text.size(), false);
}

void PreTokenizer::DivideIntoWords(std::string_view text, Divider* divider) {
  enum RunKind { kSpace, kWord, kOther };
  RunKind run = kSpace;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = DecodeAt(text.data() + at);
    // Joiners are word characters, never white space.
    const RunKind now = IsWordCharacter(c.code) ? kWord : IsWhiteSpace(c.code) ? kSpace : kOther;
    if (now != run) {
      if (run != kSpace) divider->Add(begin, at, true);
      begin = at;
      run = now;
    }
    at += c.size;
  }
  if (run != kSpace) divider->Add(begin, text.size(), true);
}

bool PreTokenizer::Matches(const Step& step, char32_t code) {
  switch (step.characters) {
    case CharacterClass::kNumeric:
      return IsNumeric(code);
    case CharacterClass::kPunctuation:
      return IsPunctuation(code);
    case CharacterClass::kWhiteSpace:
      return IsWhiteSpace(code);
    case CharacterClass::kDelimiter:
      break;
  }
  return code == step.delimiter;
}

// Whether the piece becomes what is put into `out`.
bool PreTokenizer::Rewrite(const Step& step, Piece piece, std::string* out) {
  if (piece.text.empty()) return false;
  if (step.kind == Kind::kPrefixSpace) {
    if (piece.text[0] == ' ') return false;
    out->append(" ").append(piece.text);
    return true;
  }
  if (step.kind == Kind::kByteCharacters) {
    AppendByteCharacters(piece.text, out);
    return true;
  }
  const std::string replacement = Utf8(step.metaspace.replacement);
  const bool prepends = step.metaspace.prepend == Metaspace::Prepend::kAlways ||
                        (step.metaspace.prepend == Metaspace::Prepend::kFirst && piece.is_start);
  const bool is_there =
      piece.text[0] == ' ' || piece.text.substr(0, replacement.size()) == replacement;
  if (prepends && !is_there) out->append(replacement);
  for (size_t done = 0;;) {
    const size_t space = piece.text.find(' ', done);
    out->append(piece.text.substr(done, space - done));
    if (space == std::string_view::npos) break;
    out->append(replacement);
    done = space + 1;
  }
  return true;
}

}  // namespace strata::data
