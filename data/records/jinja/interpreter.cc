#include "data/records/jinja/interpreter.h"

#include <memory>
#include <optional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/evaluator.h"
#include "data/records/jinja/lexer.h"
#include "data/records/jinja/operators.h"
#include "data/records/jinja/scope.h"

namespace strata::data::jinja {
namespace {

using Kind = Statement::Kind;

constexpr int kMaxMacroDepth = 32;

enum class Flow { kGoOn, kBreak, kContinue };

class Interpreter {
 public:
  explicit Interpreter(const RenderInput& input)
      : budget_(input.budget), evaluator_(Surroundings{budget_, input.date}, MacroCaller()) {
    if (const std::vector<Value>* items = input.followed.AsItems()) {
      for (size_t i = 0; i < items->size(); ++i) followed_[(*items)[i].AsDict()] = i;
      followed_.erase(nullptr);
    }
  }

  absl::StatusOr<Rendering> Run(const Block& block, const RenderInput& input) {
    Scope given(nullptr), top(&given);
    for (const auto& [name, value] : input.variables) given.Set(name, value);
    RETURN_IF_ERROR(Execute(block, top).status());
    return std::move(rendering_);
  }

 private:
  using FlowOr = absl::StatusOr<Flow>;

  Evaluator::CallMacro MacroCaller() {
    return [this](const Callable& macro, const Arguments& arguments) {
      return CallMacro(macro, arguments);
    };
  }

  FlowOr Execute(const Block& block, Scope& scope) {
    for (const std::unique_ptr<Statement>& statement : block) {
      RETURN_IF_ERROR(Take(*statement, Budget::kStep));
      ASSIGN_OR_RETURN(const Flow flow, Execute(*statement, scope));
      if (flow != Flow::kGoOn) return flow;
    }
    return Flow::kGoOn;
  }

  FlowOr Execute(const Statement& statement, Scope& scope) {
    switch (statement.kind) {
      case Kind::kText:
        return Done(Write(statement, statement.text));
      case Kind::kPrint: {
        ASSIGN_OR_RETURN(const Value value, evaluator_.Evaluate(*statement.value, scope));
        if (value.AsText() != nullptr) return Done(Write(statement, *value.AsText()));
        absl::StatusOr<std::string> text = ToText(value, budget_);
        if (!text.ok()) return AtLine(statement, text.status());
        return Done(Write(statement, *text));
      }
      case Kind::kIf:
        return ExecuteIf(statement, scope);
      case Kind::kFor:
        return ExecuteFor(statement, scope);
      case Kind::kSet: {
        ASSIGN_OR_RETURN(Value value, evaluator_.Evaluate(*statement.value, scope));
        return Done(Assign(statement, std::move(value), scope));
      }
      case Kind::kSetBlock:
      case Kind::kFilterBlock:
        return ExecuteCapture(statement, scope);
      case Kind::kMacro: {
        auto macro = std::make_shared<Callable>();
        macro->name = statement.text;
        macro->macro = &statement;
        macro->scope = &scope;
        scope.Set(statement.text, Value::Of(std::shared_ptr<const Callable>(std::move(macro))));
        return Flow::kGoOn;
      }
      case Kind::kGeneration:
        return ExecuteGeneration(statement, scope);
      case Kind::kBreak:
        return Flow::kBreak;
      case Kind::kContinue:
        return Flow::kContinue;
    }
    return absl::InternalError("unknown kind of statement");
  }

  static FlowOr Done(const absl::Status& status) {
    if (!status.ok()) return status;
    return Flow::kGoOn;
  }

  static absl::Status AtLine(const Statement& statement, const absl::Status& status) {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat("template line ", statement.line, ": ", status.message()));
  }

  absl::Status Take(const Statement& statement, size_t units) {
    return AtLine(statement, budget_.Take(static_cast<int64_t>(units)));
  }

  absl::Status Write(const Statement& statement, std::string_view text) {
    RETURN_IF_ERROR(Take(statement, text.size()));
    (captured_ != nullptr ? *captured_ : rendering_.text).append(text);
    return absl::OkStatus();
  }

  FlowOr ExecuteIf(const Statement& statement, Scope& scope) {
    for (const Statement::Branch& branch : statement.branches) {
      ASSIGN_OR_RETURN(const Value condition, evaluator_.Evaluate(*branch.condition, scope));
      if (condition.Truthy()) return Execute(branch.body, scope);
    }
    return Execute(statement.otherwise, scope);
  }

  FlowOr ExecuteFor(const Statement& statement, Scope& scope) {
    ASSIGN_OR_RETURN(const Value value, evaluator_.Evaluate(*statement.value, scope));
    absl::StatusOr<std::vector<Value>> all = Iterate(value, budget_);
    if (!all.ok()) return AtLine(statement, all.status());
    if (statement.condition != nullptr) {
      std::vector<Value> chosen;
      for (Value& item : *all) {
        Scope inner(&scope);
        RETURN_IF_ERROR(Assign(statement, item, inner));
        ASSIGN_OR_RETURN(const Value passes, evaluator_.Evaluate(*statement.condition, inner));
        if (passes.Truthy()) chosen.push_back(std::move(item));
      }
      *all = std::move(chosen);
    }
    const auto items = std::make_shared<const std::vector<Value>>(*std::move(all));
    for (size_t i = 0; i < items->size(); ++i) {
      ASSIGN_OR_RETURN(const Flow flow, ExecuteTurn(statement, items, i, scope));
      if (flow == Flow::kBreak) break;
    }
    return items->empty() ? Execute(statement.otherwise, scope) : FlowOr(Flow::kGoOn);
  }

  // One turn of a loop.
  FlowOr ExecuteTurn(const Statement& statement,
                     const std::shared_ptr<const std::vector<Value>>& items, size_t index,
                     Scope& scope) {
    Scope inner(&scope);
    RETURN_IF_ERROR(Take(statement, Budget::kStep));
    RETURN_IF_ERROR(Assign(statement, (*items)[index], inner));
    auto loop = std::make_shared<LoopState>();
    loop->index0 = static_cast<int64_t>(index);
    loop->items = items;
    inner.Set("loop", Value::Of(std::shared_ptr<const LoopState>(std::move(loop))));
    const auto found = followed_.find((*items)[index].AsDict());
    const bool follows = found != followed_.end() && !following_ && captured_ == nullptr;
    if (!follows) return Execute(statement.body, inner);
    following_ = true;
    const size_t begin = rendering_.text.size();
    FlowOr flow = Execute(statement.body, inner);
    following_ = false;
    if (const size_t end = rendering_.text.size(); end > begin) {
      rendering_.items.push_back({found->second, {begin, end}});
    }
    return flow;
  }

  // To the targets of a `for` or `set`.
  absl::Status Assign(const Statement& statement, Value value, Scope& scope) {
    if (!statement.unpacks) return AssignOne(statement, statement.targets[0], value, scope);
    absl::StatusOr<std::vector<Value>> parts = Iterate(value, budget_);
    if (!parts.ok()) return AtLine(statement, parts.status());
    if (parts->size() != statement.targets.size()) {
      return TemplateError(statement.line, absl::StrCat(parts->size(), " values for ",
                                                        statement.targets.size(), " names"));
    }
    for (size_t i = 0; i < parts->size(); ++i) {
      RETURN_IF_ERROR(AssignOne(statement, statement.targets[i], (*parts)[i], scope));
    }
    return absl::OkStatus();
  }

  static absl::Status AssignOne(const Statement& statement, const Statement::Target& target,
                                const Value& value, Scope& scope) {
    if (target.attribute.empty()) {
      scope.Set(target.name, value);
      return absl::OkStatus();
    }
    const Value* found = scope.Find(target.name);
    Namespace* names = found == nullptr ? nullptr : found->AsNamespace();
    if (names == nullptr) {
      return TemplateError(statement.line, absl::StrCat("'", target.name, "' is no namespace"));
    }
    if (value.Depth() >= Value::kMaxDepth) {
      return TemplateError(statement.line,
                           "a namespace holds plain data only, and nothing too deep");
    }
    names->variables.Set(target.attribute, value);
    return absl::OkStatus();
  }

  // {% set x %}…{% endset %} and {% filter f %}…{% endfilter %}.
  FlowOr ExecuteCapture(const Statement& statement, Scope& scope) {
    std::string text;
    std::string* const outer = std::exchange(captured_, &text);
    Scope inner(&scope);
    const FlowOr flow = Execute(statement.body, inner);
    captured_ = outer;
    RETURN_IF_ERROR(flow.status());
    Value value = Value::Text(std::move(text));
    if (statement.value != nullptr) {
      ASSIGN_OR_RETURN(value, evaluator_.Filtered(*statement.value, std::move(value), scope));
    }
    if (statement.kind == Kind::kSetBlock) {
      RETURN_IF_ERROR(AssignOne(statement, statement.targets[0], value, scope));
      return *flow;
    }
    ASSIGN_OR_RETURN(const std::string filtered, ToText(value, budget_));
    RETURN_IF_ERROR(Write(statement, filtered));
    return *flow;
  }

  FlowOr ExecuteGeneration(const Statement& statement, Scope& scope) {
    if (captured_ != nullptr) {
      return TemplateError(statement.line,
                           "{% generation %} inside a macro or a captured block is not supported");
    }
    const size_t begin = rendering_.text.size();
    Scope inner(&scope);
    FlowOr flow = Execute(statement.body, inner);
    if (const size_t end = rendering_.text.size(); end > begin) {
      rendering_.generations.push_back({begin, end});
    }
    return flow;
  }

  absl::StatusOr<Value> CallMacro(const Callable& callable, const Arguments& arguments) {
    const Statement& macro = *callable.macro;
    if (macro_depth_ >= kMaxMacroDepth) {
      return TemplateError(macro.line, "macros call each other too deeply");
    }
    Scope inner(callable.scope);
    RETURN_IF_ERROR(BindParameters(macro, arguments, inner));
    std::string text;
    std::string* const outer = std::exchange(captured_, &text);
    ++macro_depth_;
    const FlowOr flow = Execute(macro.body, inner);
    --macro_depth_;
    captured_ = outer;
    RETURN_IF_ERROR(flow.status());
    return Value::Text(std::move(text));
  }

  absl::Status BindParameters(const Statement& macro, const Arguments& arguments, Scope& scope) {
    if (arguments.positional.size() > macro.parameters.size()) {
      return absl::InvalidArgumentError(absl::StrCat("the macro '", macro.text, "' takes at most ",
                                                     macro.parameters.size(), " arguments"));
    }
    size_t named = 0;
    for (size_t i = 0; i < macro.parameters.size(); ++i) {
      const Statement::Parameter& parameter = macro.parameters[i];
      const Value* given = i < arguments.positional.size() ? &arguments.positional[i] : nullptr;
      for (const auto& [name, value] : arguments.keywords) {
        if (name != parameter.name) continue;
        given = &value;
        ++named;
      }
      if (given != nullptr) {
        scope.Set(parameter.name, *given);
      } else if (parameter.standard != nullptr) {
        ASSIGN_OR_RETURN(Value value, evaluator_.Evaluate(*parameter.standard, scope));
        scope.Set(parameter.name, std::move(value));
      } else {
        scope.Set(parameter.name, Value::MakeUndefined(absl::StrCat(
                                      "the argument '", parameter.name, "' was not given")));
      }
    }
    if (named == arguments.keywords.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the macro '", macro.text, "' has no argument of such a name"));
  }

  Budget budget_;
  Evaluator evaluator_;
  absl::flat_hash_map<const Dict*, size_t> followed_;
  Rendering rendering_;
  std::string* captured_ = nullptr;  // where text goes instead of the rendering
  bool following_ = false;           // inside a turn of a followed item
  int macro_depth_ = 0;
};

}  // namespace

absl::StatusOr<Rendering> Render(const Block& block, const RenderInput& input) {
  return Interpreter(input).Run(block, input);
}

}  // namespace strata::data::jinja
