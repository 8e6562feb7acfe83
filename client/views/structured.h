// Values for programs: JSON, and the same as block YAML.
#ifndef STRATA_CLIENT_VIEWS_STRUCTURED_H_
#define STRATA_CLIENT_VIEWS_STRUCTURED_H_

#include <google/protobuf/timestamp.pb.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/string_view.h"

namespace strata::client {

using Json = nlohmann::ordered_json;  // keys in the order they are written in

// Two spaces a level and a newline at the end. Bytes that are not UTF-8 are replaced.
std::string ToJsonText(const Json& value);
// One line, with its newline.
std::string ToJsonLine(const Json& value);
// The same value as block YAML; texts that YAML would read as something else are quoted.
std::string ToYamlText(const Json& value);

// `-o` json or yaml.
std::string ToText(const Json& value, absl::string_view output);

// "2026-11-21T11:14:38Z"; "InvalidTime" for what is none.
std::string TimeText(const google::protobuf::Timestamp& time);

// "0 s", "35 s", "2 h 5 min": whole seconds; clocks that differ make no negative ages.
std::string AgeText(double seconds);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_STRUCTURED_H_
