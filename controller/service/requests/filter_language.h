// Which records a list or a request is about: a part of AIP-160, for records of any kind.
//
//   filter      = sequence { "AND" sequence }        sequence = factor { factor }
//   factor      = term { "OR" term }                 so OR binds more tightly than AND
//   term        = [ "NOT" | "-" ] ( comparison | "(" filter ")" )
//   comparison  = field ( "=" | "!=" | "<" | "<=" | ">" | ">=" | ":" ) value
//
// Values may stand in double quotes, with \" and \\ for these two.
//   - texts: = and != compare; a text may begin or end with * (= "nlp-*"); `:` means that the text
//     contains the value, and `:*` that there is one. A text that is not there equals nothing (so
//     != is true of it).
//   - numbers and times (2026-11-23T07:00:00Z): = != < <= > >=.
#ifndef STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_LANGUAGE_H_
#define STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_LANGUAGE_H_

#include <functional>
#include <optional>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace strata::controller {

inline constexpr size_t kMostFilterBytes = 4096;

using RecordFilter = std::function<bool(const google::protobuf::Message&)>;

struct TextField {
  std::function<std::optional<std::string>(const google::protobuf::Message&)> of;
  // What a value stands for; `part`: behind a `:`. The message of an error says what is wrong with
  // it. Empty: values stand for themselves.
  std::function<absl::StatusOr<std::string>(const std::string& value, bool part)> read;
};
struct NumberField {
  std::function<double(const google::protobuf::Message&)> of;
  bool is_time = false;  // in seconds since 1970
};
using FilterField = std::variant<TextField, NumberField>;

// What a kind of record may be chosen by.
struct FilterFields {
  std::function<std::optional<FilterField>(const std::string&)> find;
  std::string names;    // for errors: "name, state and owner"
  std::string example;  // likewise: "state = RUNNING"
};

// An empty filter takes all. InvalidArgument, of field `filter`: what is wrong, at which column.
absl::StatusOr<RecordFilter> ParseFilter(absl::string_view filter, const FilterFields& fields);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REQUESTS_FILTER_LANGUAGE_H_
