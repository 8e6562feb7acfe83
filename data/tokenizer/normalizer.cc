#include "data/tokenizer/normalizer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/tokenizer/utf8.h"

namespace strata::data {
namespace {

constexpr std::pair<const char*, NormalForm> kForms[] = {{"NFC", NormalForm::kNfc},
                                                         {"NFD", NormalForm::kNfd},
                                                         {"NFKC", NormalForm::kNfkc},
                                                         {"NFKD", NormalForm::kNfkd}};

constexpr size_t kMostSteps = 64;
// What is put before a text once counts as if the text were that long.
constexpr double kLongText = 1024;

// The items of a Sequence.
absl::StatusOr<const Json*> ItemsOf(const Json& json) {
  const Json* const items = Field(json, "normalizers");
  if (items == nullptr || !items->is_array()) {
    return absl::InvalidArgumentError("normalizer Sequence: \"normalizers\" is not a list");
  }
  return items;
}

}  // namespace

absl::StatusOr<Normalizer> Normalizer::FromJson(const Json& json) {
  Normalizer normalizer;
  if (!json.is_null()) RETURN_IF_ERROR(normalizer.AddSteps(json));
  return normalizer;
}

absl::Status Normalizer::AddSteps(const Json& json) {
  ASSIGN_OR_RETURN(const std::string type, TypeOf(json, "normalizer"));
  if (type == "Sequence") {
    ASSIGN_OR_RETURN(const Json* const items, ItemsOf(json));
    for (const Json& item : *items) RETURN_IF_ERROR(AddSteps(item));
    return absl::OkStatus();
  }
  Step step;
  if (type == "Lowercase") {
    step.kind = Kind::kLowercase;
  } else if (type == "Strip") {
    step.kind = Kind::kStrip;
    RETURN_IF_ERROR(GetBool(json, "strip_left", &step.strip_left));
    RETURN_IF_ERROR(GetBool(json, "strip_right", &step.strip_right));
  } else if (type == "Replace") {
    step.kind = Kind::kReplace;
    ASSIGN_OR_RETURN(step.pattern, Pattern::FromJson(json));
    RETURN_IF_ERROR(GetText(json, "content", &step.content));
  } else if (type == "Prepend") {
    step.kind = Kind::kPrepend;
    RETURN_IF_ERROR(GetText(json, "prepend", &step.content));
  } else {
    step.kind = Kind::kForm;
    bool known = false;
    for (const auto& [name, form] : kForms) {
      if (type != name) continue;
      step.form = form;
      known = true;
    }
    if (!known) {
      return absl::UnimplementedError(absl::StrCat("normalizer ", type, " is not supported"));
    }
  }
  growth_ *= GrowthOf(step);
  if (steps_.size() == kMostSteps || growth_ > kMostGrowth) {
    return absl::UnimplementedError(absl::StrCat("a normalizer of more than ", kMostSteps,
                                                 " steps, or that can make a text more than ",
                                                 kMostGrowth, " times longer, is not supported"));
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

double Normalizer::GrowthOf(const Step& step) {
  switch (step.kind) {
    case Kind::kForm:
      // U+FDFA: from 3 bytes to 33; of characters that are no other's variants U+0390: from 2 to 6.
      return step.form == NormalForm::kNfkc || step.form == NormalForm::kNfkd ? 11 : 3;
    case Kind::kLowercase:
      return 1.5;  // U+0130: from 2 bytes to 3
    case Kind::kReplace:
      return step.pattern.Growth(step.content);
    case Kind::kPrepend:
      return 1 + static_cast<double>(step.content.size()) / kLongText;
    case Kind::kStrip:
      break;
  }
  return 1;
}

absl::Status Normalizer::Apply(Piece* piece, std::string* one, std::string* other) const {
  for (const Step& step : steps_) {
    one->clear();
    ASSIGN_OR_RETURN(const bool changed, ApplyStep(step, piece, one));
    if (!changed) continue;
    piece->text = *one;
    std::swap(one, other);  // the next step reads what this one has written
  }
  return absl::OkStatus();
}

// Whether the piece has become what is in `out`; otherwise it is as it should be.
absl::StatusOr<bool> Normalizer::ApplyStep(const Step& step, Piece* piece, std::string* out) {
  const std::string_view text = piece->text;
  switch (step.kind) {
    case Kind::kForm:
      if (IsNormalized(text, step.form)) return false;
      AppendNormalized(text, step.form, out);
      return true;
    case Kind::kLowercase:
      AppendLowercase(text, out);
      return true;
    case Kind::kStrip:
      Strip(step, piece);
      return false;
    case Kind::kPrepend:
      if (text.empty()) return false;
      out->append(step.content).append(text);
      return true;
    case Kind::kReplace:
      break;
  }
  size_t done = 0;
  RETURN_IF_ERROR(step.pattern.FindAll(text, [&](size_t begin, size_t end) {
    // What replaces a match comes from the match's last character.
    const bool moves_start =
        step.content.empty() || CountCharacters(text.substr(begin, end - begin)) > 1;
    if (begin == 0 && end > begin && moves_start) piece->is_start = false;
    out->append(text.substr(done, begin - done));
    out->append(step.content);
    done = end;
  }));
  if (done == 0 && out->empty()) return false;
  out->append(text.substr(done));
  return true;
}

void Normalizer::Strip(const Step& step, Piece* piece) {
  std::string_view& text = piece->text;
  while (step.strip_left && !text.empty()) {
    const Character c = DecodeAt(text.data());
    if (!IsWhiteSpace(c.code)) break;
    text.remove_prefix(c.size);
    piece->is_start = false;
  }
  while (step.strip_right && !text.empty()) {
    const Character c = DecodeBefore(text.data(), text.data() + text.size());
    if (!IsWhiteSpace(c.code)) break;
    text.remove_suffix(c.size);
  }
}

}  // namespace strata::data
