#include "data/tokenizer/pattern.h"

#include <algorithm>
#include <utility>

#include "common/status_macros.h"

namespace strata::data {

absl::StatusOr<Pattern> Pattern::FromJson(const Json& object) {
  std::string literal, regex;
  if (const Json* const pattern = Field(object, "pattern"); pattern != nullptr) {
    RETURN_IF_ERROR(GetText(*pattern, "String", &literal));
    RETURN_IF_ERROR(GetText(*pattern, "Regex", &regex));
  }
  if (literal.empty() == regex.empty()) {
    return absl::InvalidArgumentError(
        "\"pattern\" is neither {\"String\": …} nor {\"Regex\": …} with a text");
  }
  Pattern pattern = Literal(std::move(literal));
  if (!regex.empty()) {
    ASSIGN_OR_RETURN(pattern.regex_, Regex::Compile(regex));
    pattern.regex_text_ = std::move(regex);
  }
  return pattern;
}

Pattern Pattern::Literal(std::string text) {
  Pattern pattern;
  pattern.literal_ = std::move(text);
  return pattern;
}

absl::Status Pattern::FindAll(std::string_view text,
                              absl::FunctionRef<void(size_t begin, size_t end)> match) const {
  if (regex_ != nullptr) return regex_->FindAll(text, match);
  for (size_t at = 0; (at = text.find(literal_, at)) != std::string_view::npos;) {
    const size_t begin = at;
    at += literal_.size();
    match(begin, at);
  }
  return absl::OkStatus();
}

double Pattern::Growth(std::string_view content) const {
  const auto size = static_cast<double>(content.size());
  // An expression may match nothing, before each byte.
  if (regex_ != nullptr) return 1 + size;
  return std::max(1.0, size / static_cast<double>(literal_.size()));
}

absl::Status Pattern::Replace(std::string_view text, std::string_view content,
                              std::string* out) const {
  size_t done = 0;
  RETURN_IF_ERROR(FindAll(text, [&](size_t begin, size_t end) {
    out->append(text.substr(done, begin - done));
    out->append(content);
    done = end;
  }));
  out->append(text.substr(done));
  return absl::OkStatus();
}

}  // namespace strata::data
