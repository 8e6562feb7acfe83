#include "data/tokenizer/decoder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/status_macros.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

constexpr size_t kMostSteps = 64;

absl::Status Unsupported(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat(what, " is not supported"));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// The byte of a token <0x00> to <0xFF>; -1: it is another token.
int FallbackByte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const int low = HexDigit(token[4]);
  // A plus sign is part of a number in Rust.
  const int high = token[3] == '+' ? 0 : HexDigit(token[3]);
  return low < 0 || high < 0 ? -1 : 16 * high + low;
}

// How many characters equal to `character` text starts with, at most `most`; their bytes in *bytes.
int64_t CountAtStart(std::string_view text, char32_t character, int64_t most, size_t* bytes) {
  int64_t count = 0;
  *bytes = 0;
  while (count < most && *bytes < text.size()) {
    const Character c = DecodeAt(text.data() + *bytes);
    if (c.code != character) break;
    *bytes += c.size;
    ++count;
  }
  return count;
}

// Where the last characters of text equal to `character` begin, at most `most` of them.
size_t StartOfEnd(std::string_view text, char32_t character, int64_t most) {
  const char* at = text.data() + text.size();
  for (; most > 0 && at > text.data(); --most) {
    const Character c = DecodeBefore(text.data(), at);
    if (c.code != character) break;
    at -= c.size;
  }
  return static_cast<size_t>(at - text.data());
}

}  // namespace

absl::StatusOr<Decoder> Decoder::FromJson(const Json& json) {
  Decoder decoder;
  if (json.is_null()) {
    decoder.steps_.emplace_back();
    return decoder;
  }
  RETURN_IF_ERROR(decoder.AddSteps(json));
  return decoder;
}

Decoder Decoder::Bytes() {
  Decoder decoder;
  decoder.steps_.emplace_back().kind = Kind::kBytes;
  return decoder;
}

absl::Status Decoder::AddSteps(const Json& json) {
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "decoder"));
  if (type == "Sequence") {
    const Json* const items = Field(json, "decoders");
    if (items == nullptr || !items->is_array()) {
      return absl::InvalidArgumentError("decoder Sequence: \"decoders\" is not a list");
    }
    for (const Json& item : *items) RETURN_IF_ERROR(AddSteps(item));
    return absl::OkStatus();
  }
  Step step;
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = Kind::kFuse;
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    ASSIGN_OR_RETURN(step.pattern, Pattern::FromJson(json));
    if (!step.pattern.regex().empty()) return Unsupported("decoder Replace of a Regex");
    RETURN_IF_ERROR(GetText(json, "content", &step.content));
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    std::string content = " ";
    RETURN_IF_ERROR(GetText(json, "content", &content));
    RETURN_IF_ERROR(GetCount(json, "start", &step.start));
    RETURN_IF_ERROR(GetCount(json, "stop", &step.stop));
    if (CountCharacters(content) != 1) return Unsupported("decoder Strip of several characters");
    step.character = DecodeAt(content.data()).code;
  } else if (type == "Metaspace") {
    step.kind = Kind::kMetaspace;
    ASSIGN_OR_RETURN(step.metaspace, Metaspace::FromJson(json));
  } else if (type == "BPEDecoder") {
    step.kind = Kind::kSuffix;
    step.content = "</w>";
    RETURN_IF_ERROR(GetText(json, "suffix", &step.content));
    if (step.content.empty()) return Unsupported("decoder BPEDecoder without a suffix");
  } else {
    return Unsupported(absl::StrCat("decoder ", type));
  }
  return Add(std::move(step));
}

absl::Status Decoder::Add(Step step) {
  if (steps_.size() == kMostSteps) {
    return Unsupported(absl::StrCat("a decoder of more than ", kMostSteps, " steps"));
  }
  if (step.kind == Kind::kReplace) growth_ *= step.pattern.Growth(step.content);
  if (growth_ > kMostGrowth) {
    return Unsupported(
        absl::StrCat("a decoder that can make a token more than ", kMostGrowth, " times longer"));
  }
  step.pieces = !steps_.empty() && (steps_.back().pieces || steps_.back().kind == Kind::kFuse ||
                                    steps_.back().kind == Kind::kByteLevel);
  // What looks at the text as a whole would have to wait for its end.
  if (step.pieces && step.kind != Kind::kStrip && step.kind != Kind::kFuse) {
    return Unsupported("a decoder that goes on after Fuse or ByteLevel with more than Strip");
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

DecoderRun::DecoderRun(const Decoder& decoder)
    : decoder_(decoder), states_(decoder.steps_.size()) {}

void DecoderRun::Add(std::string_view token, std::string* out) { Pass(0, token, out); }

void DecoderRun::Finish(std::string* out) {
  for (size_t index = 0; index < states_.size(); ++index) Drain(index, out);
}

// A text comes to a step; what becomes of it goes on to the next ones.
void DecoderRun::Pass(size_t index, std::string_view text, std::string* out) {
  if (index == states_.size()) {
    out->append(text);
    return;
  }
  const Decoder::Step& step = decoder_.steps_[index];
  State& state = states_[index];
  const bool first = state.texts++ == 0;
  switch (step.kind) {
    case Decoder::Kind::kJoin:
      if (!first) Pass(index + 1, " ", out);
      return Pass(index + 1, text, out);
    case Decoder::Kind::kBytes:
      state.held.append(text);
      return PassBytes(index, out);
    case Decoder::Kind::kByteLevel:
      AppendBytesOf(text, &state.held);
      return PassBytes(index, out);
    case Decoder::Kind::kByteFallback:
      return PassFallback(index, text, out);
    case Decoder::Kind::kFuse:
      return Pass(index + 1, text, out);
    case Decoder::Kind::kStrip:
      return PassStrip(index, text, out);
    case Decoder::Kind::kSuffix:
      return PassSuffix(index, text, out);
    case Decoder::Kind::kReplace: {
      std::string replaced;
      // A literal text is found within any limits.
      STRATA_CHECK(step.pattern.Replace(text, step.content, &replaced).ok());
      return Pass(index + 1, replaced, out);
    }
    case Decoder::Kind::kMetaspace:
      break;
  }
  const bool removes = first && step.metaspace.prepend != Metaspace::Prepend::kNever;
  std::string replaced;
  STRATA_CHECK(Pattern::Literal(Utf8(step.metaspace.replacement))
                   .Replace(text, removes ? "" : " ", &replaced)
                   .ok());
  Pass(index + 1, replaced, out);
}

// No more texts come to a step.
void DecoderRun::Drain(size_t index, std::string* out) {
  const Decoder::Step& step = decoder_.steps_[index];
  State& state = states_[index];
  std::string rest;
  switch (step.kind) {
    case Decoder::Kind::kBytes:
    case Decoder::Kind::kByteLevel:
      AppendLossy(state.held, &rest);
      if (!rest.empty()) Pass(index + 1, rest, out);
      return;
    case Decoder::Kind::kByteFallback:
      return DrainFallback(index, out);
    case Decoder::Kind::kSuffix:
      if (state.texts == 0) return;
      STRATA_CHECK(Pattern::Literal(step.content).Replace(state.held, "", &rest).ok());
      return Pass(index + 1, rest, out);
    default:
      return;  // a Strip of pieces drops what it holds: it is at the end
  }
}

// Passes on all that later bytes cannot change: all but the beginning of a character at the end.
void DecoderRun::PassBytes(size_t index, std::string* out) {
  std::string& held = states_[index].held;
  size_t certain = held.size();
  for (size_t back = 1; back <= std::min<size_t>(3, held.size()); ++back) {
    const std::string_view end = std::string_view(held).substr(held.size() - back);
    if (IsContinuation(end[0])) continue;
    if (ScanSequence(end).kind == Sequence::kTruncated) certain -= back;
    break;
  }
  if (certain == 0) return;
  std::string text;
  AppendLossy(std::string_view(held).substr(0, certain), &text);
  held.erase(0, certain);
  Pass(index + 1, text, out);
}

void DecoderRun::PassFallback(size_t index, std::string_view text, std::string* out) {
  if (const int byte = FallbackByte(text); byte >= 0) {
    states_[index].held.push_back(static_cast<char>(byte));
    return;
  }
  DrainFallback(index, out);
  Pass(index + 1, text, out);
}

// A run of bytes that is not UTF-8 as a whole is replaced byte by byte.
void DecoderRun::DrainFallback(size_t index, std::string* out) {
  std::string run;
  run.swap(states_[index].held);
  if (run.empty()) return;
  if (FindInvalidUtf8(run) == std::string::npos) return Pass(index + 1, run, out);
  for (size_t i = 0; i < run.size(); ++i) Pass(index + 1, Utf8(kReplacementCharacter), out);
}

void DecoderRun::PassStrip(size_t index, std::string_view text, std::string* out) {
  const Decoder::Step& step = decoder_.steps_[index];
  State& state = states_[index];
  size_t bytes = 0;
  if (!step.pieces) {
    CountAtStart(text, step.character, step.start, &bytes);
    const size_t end = StartOfEnd(text, step.character, step.stop);
    return Pass(index + 1, bytes < end ? text.substr(bytes, end - bytes) : "", out);
  }
  if (!state.started) {
    const int64_t left = step.start - state.stripped;
    state.stripped += CountAtStart(text, step.character, left, &bytes);
    text.remove_prefix(bytes);
    state.started = !text.empty() || state.stripped == step.start;
  }
  state.held.append(text);
  const size_t end = StartOfEnd(state.held, step.character, step.stop);
  if (end == 0) return;
  std::string certain = state.held.substr(0, end);
  state.held.erase(0, end);
  Pass(index + 1, certain, out);
}

// Only the last text has no space for its suffix, so each one waits for the next.
void DecoderRun::PassSuffix(size_t index, std::string_view text, std::string* out) {
  std::string previous(text);
  previous.swap(states_[index].held);
  if (states_[index].texts == 1) return;
  std::string replaced;
  const Pattern suffix = Pattern::Literal(decoder_.steps_[index].content);
  STRATA_CHECK(suffix.Replace(previous, " ", &replaced).ok());
  Pass(index + 1, replaced, out);
}

}  // namespace strata::data
