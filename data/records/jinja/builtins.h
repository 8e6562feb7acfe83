// The functions, methods, filters and tests that templates may use. Others are refused by name.
#ifndef STRATA_DATA_RECORDS_JINJA_BUILTINS_H_
#define STRATA_DATA_RECORDS_JINJA_BUILTINS_H_

#include <ctime>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/records/jinja/value.h"

namespace strata::data::jinja {

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // By position or name, in the order of `names`; an error for others.
  absl::StatusOr<std::vector<std::optional<Value>>> Bind(
      std::initializer_list<std::string_view> names) const;
};

// What they need beside their arguments.
struct Surroundings {
  Budget& budget;
  const std::tm& date;  // what strftime_now says
};

bool IsFunction(std::string_view name);
absl::StatusOr<Value> CallFunction(std::string_view name, const Arguments& arguments,
                                   const Surroundings& with);

bool HasMethod(const Value& self, std::string_view name);
absl::StatusOr<Value> CallMethod(const Value& self, std::string_view name,
                                 const Arguments& arguments, const Surroundings& with);

absl::StatusOr<Value> ApplyFilter(std::string_view name, const Value& value,
                                  const Arguments& arguments, const Surroundings& with);
absl::StatusOr<bool> ApplyTest(std::string_view name, const Value& value,
                               const Arguments& arguments, const Surroundings& with);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_BUILTINS_H_
