// Reads a whole template. What is not supported is refused by name.
#ifndef STRATA_DATA_RECORDS_JINJA_PARSER_H_
#define STRATA_DATA_RECORDS_JINJA_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "data/records/jinja/ast.h"

namespace strata::data::jinja {

inline constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

// InvalidArgument: "template line 3: …".
absl::StatusOr<Block> ParseTemplate(std::string_view source);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_PARSER_H_
