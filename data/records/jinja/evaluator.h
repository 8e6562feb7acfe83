// Works out expressions.
#ifndef STRATA_DATA_RECORDS_JINJA_EVALUATOR_H_
#define STRATA_DATA_RECORDS_JINJA_EVALUATOR_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "data/records/jinja/ast.h"
#include "data/records/jinja/builtins.h"
#include "data/records/jinja/scope.h"
#include "data/records/jinja/value.h"

namespace strata::data::jinja {

class Evaluator {
 public:
  using Result = absl::StatusOr<Value>;
  using CallMacro = std::function<Result(const Callable&, const Arguments&)>;

  Evaluator(const Surroundings& with, CallMacro call_macro)
      : with_(with), call_macro_(std::move(call_macro)) {}

  // Errors name the line of the innermost expression that failed.
  Result Evaluate(const Expression& node, Scope& scope);
  // `text` through the filters of a block.
  Result Filtered(const Expression& filters, Value text, Scope& scope);

 private:
  Result Dispatch(const Expression& node, Scope& scope);
  Result Name(const Expression& node, const Scope& scope) const;
  Result Items(const Expression& node, Scope& scope);
  Result MakeDict(const Expression& node, Scope& scope);
  Result GetItem(const Expression& node, Scope& scope);
  Result GetSlice(const Expression& node, Scope& scope);
  Result Call(const Expression& node, Scope& scope);
  Result FilterOrTest(const Expression& node, Value value, Scope& scope);
  Result Concatenate(const Expression& node, Scope& scope);
  Result Comparison(const Expression& node, Scope& scope);
  Result Conditional(const Expression& node, Scope& scope);
  absl::StatusOr<Arguments> EvaluateArguments(const Expression& node, Scope& scope);

  const Surroundings with_;
  const CallMacro call_macro_;
  int depth_ = 0;
};

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_EVALUATOR_H_
