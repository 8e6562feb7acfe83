// Renders a parsed template, and tells where in the text each item of a followed list was written.
#ifndef STRATA_DATA_RECORDS_JINJA_INTERPRETER_H_
#define STRATA_DATA_RECORDS_JINJA_INTERPRETER_H_

#include <cstddef>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "data/records/jinja/ast.h"
#include "data/records/jinja/value.h"

namespace strata::data::jinja {

// Bytes [begin, end) of a rendered text.
struct Span {
  size_t begin = 0;
  size_t end = 0;
};

struct Rendering {
  std::string text;
  // What {% generation %} blocks wrote, in order.
  std::vector<Span> generations;
  // What was written while a loop stood at an item of the followed list: (index, span), in order of
  // writing; only where something was.
  std::vector<std::pair<size_t, Span>> items;
};

struct RenderInput {
  std::vector<std::pair<std::string, Value>> variables;
  // A list of dictionaries, each of which is its own object; or none. Slices and filtered copies of
  // it hold the same objects, so loops over these are followed as well.
  Value followed;
  std::tm date{};      // what strftime_now says
  int64_t budget = 0;  // see Budget
};

// Errors: "template line 3: …": InvalidArgument; ResourceExhausted beyond the budget.
absl::StatusOr<Rendering> Render(const Block& block, const RenderInput& input);

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_INTERPRETER_H_
