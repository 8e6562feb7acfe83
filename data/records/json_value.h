// JSON as template values, strictly read.
#ifndef STRATA_DATA_RECORDS_JSON_VALUE_H_
#define STRATA_DATA_RECORDS_JSON_VALUE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "data/records/jinja/value.h"

namespace strata::data {

// The whole of `json` is one value. InvalidArgument, with the byte where it is: not JSON, invalid
// UTF-8, a key twice in one object, integers beyond 64 bits, too deep.
absl::StatusOr<jinja::Value> ParseJsonValue(std::string_view json);

}  // namespace strata::data

#endif  // STRATA_DATA_RECORDS_JSON_VALUE_H_
