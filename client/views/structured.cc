#include "client/views/structured.h"

#include <google/protobuf/util/time_util.h>

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/units.h"

namespace strata::client {
namespace {

constexpr auto kReplace = Json::error_handler_t::replace;

// Whether a text stands for itself in YAML without quotes: a word that is no number, boolean or
// null, of characters without a meaning of their own.
bool IsPlain(const std::string& text) {
  if (text.empty() || (!absl::ascii_isalpha(text[0]) && text[0] != '/')) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && c != '/' && c != '.' && c != '_' && c != '-') return false;
  }
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* word : {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}) {
    if (lower == word) return false;
  }
  return true;
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlain(value.get<std::string>())) return value.get<std::string>();
  return value.dump(-1, ' ', false, kReplace);  // JSON's quoting is YAML's too
}

bool IsBlock(const Json& value) { return value.is_structured() && !value.empty(); }

// Without the first line's indentation, so that it can follow "- ".
void Write(const Json& value, const std::string& indent, std::string& text) {
  bool first = true;
  const auto begin_line = [&] {
    if (!first) absl::StrAppend(&text, indent);
    first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      begin_line();
      absl::StrAppend(&text, Scalar(Json(key)), ":");
      if (!IsBlock(item)) {
        absl::StrAppend(&text, " ", Scalar(item), "\n");
        continue;
      }
      const std::string inner = absl::StrCat(indent, "  ");
      absl::StrAppend(&text, "\n", inner);
      Write(item, inner, text);
    }
    return;
  }
  for (const Json& item : value) {
    begin_line();
    absl::StrAppend(&text, "- ");
    if (IsBlock(item)) {
      Write(item, absl::StrCat(indent, "  "), text);
    } else {
      absl::StrAppend(&text, Scalar(item), "\n");
    }
  }
}

}  // namespace

std::string ToJsonText(const Json& value) { return value.dump(2, ' ', false, kReplace) + "\n"; }

std::string ToJsonLine(const Json& value) { return value.dump(-1, ' ', false, kReplace) + "\n"; }

std::string ToYamlText(const Json& value) {
  if (!IsBlock(value)) return Scalar(value) + "\n";
  std::string text;
  Write(value, "", text);
  return text;
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return google::protobuf::util::TimeUtil::ToString(time);
}

std::string AgeText(double seconds) {
  return seconds < 1 ? "0 s" : common::FormatSeconds(std::floor(seconds));
}

std::string ToText(const Json& value, absl::string_view output) {
  return output == "yaml" ? ToYamlText(value) : ToJsonText(value);
}

}  // namespace strata::client
