// Typed access to the fields of a JSON object from outside: every mistake is a status, none an
// exception.
#ifndef STRATA_CHECKPOINT_JSON_FIELDS_H_
#define STRATA_CHECKPOINT_JSON_FIELDS_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::checkpoint {

using Json = nlohmann::json;

inline absl::StatusOr<const Json*> FieldOf(const Json& object, const char* key) {
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("no object where \"", key, "\" was expected"));
  }
  const auto found = object.find(key);
  if (found == object.end()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is missing"));
  }
  return &*found;
}

// A whole number in [0, 2^63).
inline absl::Status GetNumber(const Json& value, const char* key, int64_t* out) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not a count"));
  }
  *out = static_cast<int64_t>(value.get<uint64_t>());
  return absl::OkStatus();
}

inline absl::Status Get(const Json& object, const char* key, int64_t* out) {
  ASSIGN_OR_RETURN(const Json* const value, FieldOf(object, key));
  return GetNumber(*value, key, out);
}

inline absl::Status Get(const Json& object, const char* key, uint64_t* out) {
  ASSIGN_OR_RETURN(const Json* const value, FieldOf(object, key));
  if (!value->is_number_unsigned()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not a count"));
  }
  *out = value->get<uint64_t>();
  return absl::OkStatus();
}

inline absl::Status Get(const Json& object, const char* key, std::string* out) {
  ASSIGN_OR_RETURN(const Json* const value, FieldOf(object, key));
  if (!value->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not a text"));
  }
  *out = value->get<std::string>();
  return absl::OkStatus();
}

inline absl::StatusOr<const Json*> GetList(const Json& object, const char* key) {
  ASSIGN_OR_RETURN(const Json* const value, FieldOf(object, key));
  if (!value->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" is not a list"));
  }
  return value;
}

inline absl::Status Get(const Json& object, const char* key, std::vector<int64_t>* out) {
  ASSIGN_OR_RETURN(const Json* const list, GetList(object, key));
  for (const Json& value : *list) {
    out->push_back(0);
    RETURN_IF_ERROR(GetNumber(value, key, &out->back()));
  }
  return absl::OkStatus();
}

inline absl::Status Get(const Json& object, const char* key, std::vector<std::string>* out) {
  ASSIGN_OR_RETURN(const Json* const list, GetList(object, key));
  for (const Json& value : *list) {
    if (!value.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", key, "\" holds something but texts"));
    }
    out->push_back(value.get<std::string>());
  }
  return absl::OkStatus();
}

// The text of a value; InvalidArgument when a string in it is not UTF-8.
inline absl::StatusOr<std::string> ToText(const Json& value, int indent) {
  try {
    return value.dump(indent);
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
}

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_JSON_FIELDS_H_
