#include "data/records/jinja/evaluator.h"

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/lexer.h"
#include "data/records/jinja/operators.h"

namespace strata::data::jinja {
namespace {

using Kind = Expression::Kind;

// Expressions inside each other, macros' included: keeps the stack below about a megabyte.
constexpr int kMaxDepth = 500;

// The error with the line where it happened, unless it has one.
absl::Status AtLine(int line, const absl::Status& status) {
  if (absl::StartsWith(status.message(), "template line ")) return status;
  return absl::Status(status.code(), absl::StrCat("template line ", line, ": ", status.message()));
}

}  // namespace

Evaluator::Result Evaluator::Evaluate(const Expression& node, Scope& scope) {
  if (depth_ >= kMaxDepth) return TemplateError(node.line, "calls nested too deeply");
  ++depth_;
  const absl::Status paid = with_.budget.Take(Budget::kStep);
  Result result = paid.ok() ? Dispatch(node, scope) : Result(paid);
  --depth_;
  if (!result.ok()) return AtLine(node.line, result.status());
  return result;
}

Evaluator::Result Evaluator::Dispatch(const Expression& node, Scope& scope) {
  switch (node.kind) {
    case Kind::kConstant:
      return node.constant;
    case Kind::kName:
      return Name(node, scope);
    case Kind::kList:
    case Kind::kTuple:
      return Items(node, scope);
    case Kind::kDict:
      return MakeDict(node, scope);
    case Kind::kAttribute: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operands[0], scope));
      return Attribute(value, node.name);
    }
    case Kind::kItem:
      return GetItem(node, scope);
    case Kind::kSlice:
      return GetSlice(node, scope);
    case Kind::kCall:
      return Call(node, scope);
    case Kind::kFilter:
    case Kind::kTest: {
      ASSIGN_OR_RETURN(Value value, Evaluate(*node.operands[0], scope));
      return FilterOrTest(node, std::move(value), scope);
    }
    case Kind::kNegative: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operands[0], scope));
      return Negative(value);
    }
    case Kind::kPositive:
      return Evaluate(*node.operands[0], scope);
    case Kind::kNot: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operands[0], scope));
      return Value::Of(!value.Truthy());
    }
    case Kind::kBinary: {
      ASSIGN_OR_RETURN(const Value left, Evaluate(*node.operands[0], scope));
      ASSIGN_OR_RETURN(const Value right, Evaluate(*node.operands[1], scope));
      return Arithmetic(node.name, left, right, with_.budget);
    }
    case Kind::kConcatenate:
      return Concatenate(node, scope);
    case Kind::kCompare:
      return Comparison(node, scope);
    case Kind::kAnd:
    case Kind::kOr: {
      ASSIGN_OR_RETURN(Value left, Evaluate(*node.operands[0], scope));
      if (left.Truthy() == (node.kind == Kind::kOr)) return left;
      return Evaluate(*node.operands[1], scope);
    }
    case Kind::kConditional:
      return Conditional(node, scope);
  }
  return absl::InternalError("unknown kind of expression");
}

Evaluator::Result Evaluator::Name(const Expression& node, const Scope& scope) const {
  if (const Value* found = scope.Find(node.name)) return *found;
  if (IsFunction(node.name)) {
    auto function = std::make_shared<Callable>();
    function->name = node.name;
    return Value::Of(std::shared_ptr<const Callable>(std::move(function)));
  }
  return Value::MakeUndefined(absl::StrCat("'", node.name, "' is undefined"));
}

Evaluator::Result Evaluator::Items(const Expression& node, Scope& scope) {
  std::vector<Value> items;
  for (const ExpressionPtr& operand : node.operands) {
    ASSIGN_OR_RETURN(Value item, Evaluate(*operand, scope));
    items.push_back(std::move(item));
  }
  RETURN_IF_ERROR(with_.budget.Take(static_cast<int64_t>(items.size() + 2) * kItemBytes));
  return Value::Of(std::move(items), node.kind == Kind::kTuple);
}

Evaluator::Result Evaluator::MakeDict(const Expression& node, Scope& scope) {
  Dict dict;
  for (size_t i = 0; i < node.operands.size(); i += 2) {
    ASSIGN_OR_RETURN(const Value key, Evaluate(*node.operands[i], scope));
    if (key.AsText() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("keys of a dictionary must be texts here, not a ", key.TypeName()));
    }
    ASSIGN_OR_RETURN(Value value, Evaluate(*node.operands[i + 1], scope));
    RETURN_IF_ERROR(with_.budget.Take(static_cast<int64_t>(key.AsText()->size()) + 128));
    dict.Set(*key.AsText(), std::move(value));
  }
  return Value::Of(std::move(dict));
}

Evaluator::Result Evaluator::GetItem(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operands[0], scope));
  ASSIGN_OR_RETURN(const Value index, Evaluate(*node.operands[1], scope));
  return Item(value, index, with_.budget);
}

Evaluator::Result Evaluator::GetSlice(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value value, Evaluate(*node.operands[0], scope));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (node.operands[i + 1] == nullptr) continue;
    ASSIGN_OR_RETURN(bounds[i], Evaluate(*node.operands[i + 1], scope));
  }
  return Slice(value, bounds[0], bounds[1], bounds[2], with_.budget);
}

absl::StatusOr<Arguments> Evaluator::EvaluateArguments(const Expression& node, Scope& scope) {
  Arguments arguments;
  for (size_t i = 1; i < node.operands.size(); ++i) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*node.operands[i], scope));
    arguments.positional.push_back(std::move(value));
  }
  for (const auto& [name, operand] : node.keywords) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*operand, scope));
    arguments.keywords.emplace_back(name, std::move(value));
  }
  return arguments;
}

Evaluator::Result Evaluator::Call(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value called, Evaluate(*node.operands[0], scope));
  ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
  const Callable* callable = called.AsCallable();
  if (called.IsUndefined()) return absl::InvalidArgumentError(called.UndefinedReason());
  if (callable == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a ", called.TypeName(), " cannot be called"));
  }
  if (callable->macro != nullptr) return call_macro_(*callable, arguments);
  Result result = callable->is_method ? CallMethod(callable->self, callable->name, arguments, with_)
                                      : CallFunction(callable->name, arguments, with_);
  return result;
}

Evaluator::Result Evaluator::FilterOrTest(const Expression& node, Value value, Scope& scope) {
  ASSIGN_OR_RETURN(const Arguments arguments, EvaluateArguments(node, scope));
  if (node.kind == Kind::kFilter) return ApplyFilter(node.name, value, arguments, with_);
  ASSIGN_OR_RETURN(const bool passes, ApplyTest(node.name, value, arguments, with_));
  return Value::Of(passes);
}

Evaluator::Result Evaluator::Filtered(const Expression& filters, Value text, Scope& scope) {
  if (filters.operands[0] != nullptr) {
    ASSIGN_OR_RETURN(text, Filtered(*filters.operands[0], std::move(text), scope));
  }
  Result result = FilterOrTest(filters, std::move(text), scope);
  if (!result.ok()) return AtLine(filters.line, result.status());
  return result;
}

Evaluator::Result Evaluator::Concatenate(const Expression& node, Scope& scope) {
  std::string out;
  for (const ExpressionPtr& operand : node.operands) {
    ASSIGN_OR_RETURN(const Value value, Evaluate(*operand, scope));
    ASSIGN_OR_RETURN(const std::string text, ToText(value, with_.budget));
    out += text;
  }
  return Value::Text(std::move(out));
}

Evaluator::Result Evaluator::Comparison(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(Value left, Evaluate(*node.operands[0], scope));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    ASSIGN_OR_RETURN(Value right, Evaluate(*node.operands[i + 1], scope));
    ASSIGN_OR_RETURN(const bool holds, Compare(node.operators[i], left, right, with_.budget));
    if (!holds) return Value::Of(false);
    left = std::move(right);
  }
  return Value::Of(true);
}

Evaluator::Result Evaluator::Conditional(const Expression& node, Scope& scope) {
  ASSIGN_OR_RETURN(const Value condition, Evaluate(*node.operands[0], scope));
  if (condition.Truthy()) return Evaluate(*node.operands[1], scope);
  if (node.operands[2] != nullptr) return Evaluate(*node.operands[2], scope);
  return Value::MakeUndefined("an 'if' without 'else' gave nothing");
}

}  // namespace strata::data::jinja
