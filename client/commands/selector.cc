#include "client/commands/selector.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "spec/problems.h"

namespace strata::client {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

bool IsKey(absl::string_view key) {
  for (const char c : key) {
    const bool fine = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                      c == '.' || c == '/';
    if (!fine) return false;
  }
  return !key.empty();
}

}  // namespace

absl::StatusOr<std::string> FilterOfSelector(const std::string& selector) {
  std::vector<std::string> parts;
  for (absl::string_view part : absl::StrSplit(selector, ',')) {
    part = absl::StripAsciiWhitespace(part);
    const bool absent = absl::ConsumePrefix(&part, "!");
    const size_t equals = part.find('=');
    const bool differs = equals != absl::string_view::npos && equals > 0 && part[equals - 1] == '!';
    const absl::string_view key =
        absl::StripAsciiWhitespace(part.substr(0, differs ? equals - 1 : equals));
    if (!IsKey(key) || (absent && equals != absl::string_view::npos)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--selector ", spec::Shown(selector),
                       ": not a selector — write KEY=VALUE, "
                       "KEY!=VALUE, KEY or !KEY, with commas between"));
    }
    if (equals == absl::string_view::npos) {
      parts.push_back(absl::StrCat(absent ? "NOT " : "", "spec.labels.", key, ":*"));
      continue;
    }
    absl::string_view value = part.substr(equals + 1);
    absl::ConsumePrefix(&value, "=");
    parts.push_back(absl::StrCat("spec.labels.", key, differs ? " != " : " = ",
                                 Quoted(absl::StripAsciiWhitespace(value))));
  }
  return absl::StrJoin(parts, " AND ");
}

std::vector<Flag> FilterFlags() {
  return {{"--selector", Flag::Kind::kText, "KEY=VALUE,…",
           "jobs with these labels; also KEY!=VALUE, KEY, !KEY", "-l"},
          {"--filter", Flag::Kind::kText, "FILTER",
           "jobs such as 'state = QUEUED AND project = nlp' (name, state, owner, project, queue, "
           "priority, create_time, spec.labels.KEY)"}};
}

absl::StatusOr<std::string> FilterOf(const Arguments& arguments) {
  std::string filter = arguments.Text("--filter");
  if (!arguments.Has("--selector")) return filter;
  ASSIGN_OR_RETURN(std::string selected, FilterOfSelector(arguments.Text("--selector")));
  return filter.empty() ? selected : absl::StrCat(selected, " AND (", filter, ")");
}

}  // namespace strata::client
