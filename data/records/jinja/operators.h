// What operators do, and how values are taken apart.
#ifndef STRATA_DATA_RECORDS_JINJA_OPERATORS_H_
#define STRATA_DATA_RECORDS_JINJA_OPERATORS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/records/jinja/value.h"

namespace strata::data::jinja {

// + - * / // % **
absl::StatusOr<Value> Arithmetic(std::string_view name, const Value& a, const Value& b,
                                 Budget& budget);
absl::StatusOr<Value> Negative(const Value& value);
// == != < <= > >= in "not in"
absl::StatusOr<bool> Compare(std::string_view name, const Value& a, const Value& b, Budget& budget);

// What an item of a list costs of the budget: its bytes.
inline constexpr int64_t kItemBytes = sizeof(Value);

// The items that a loop goes through: those of a list, keys, characters; none of what is undefined.
absl::StatusOr<std::vector<Value>> Iterate(const Value& value, Budget& budget);

// value.name, value[index], value[begin:end:step] (undefined bounds: absent). What is not there is
// undefined; so is what a sandbox hides.
absl::StatusOr<Value> Attribute(const Value& value, const std::string& name);
absl::StatusOr<Value> Item(const Value& value, const Value& index, Budget& budget);
absl::StatusOr<Value> Slice(const Value& value, const Value& begin, const Value& end,
                            const Value& step, Budget& budget);
// "a.b.0": attributes one after the other, as filters name them.
absl::StatusOr<Value> Path(const Value& value, const Value& path, Budget& budget);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_OPERATORS_H_
