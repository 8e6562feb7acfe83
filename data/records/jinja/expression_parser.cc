#include "data/records/jinja/expression_parser.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::data::jinja {
namespace {

using Kind = Expression::Kind;

ExpressionPtr Make(Kind kind, int line, std::string name = "") {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}

ExpressionPtr Constant(int line, Value value) {
  ExpressionPtr node = Make(Kind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

// true, false, none in both spellings; null for other names.
ExpressionPtr NamedConstant(const Token& token) {
  if (token.text == "true" || token.text == "True") return Constant(token.line, Value::Of(true));
  if (token.text == "false" || token.text == "False") {
    return Constant(token.line, Value::Of(false));
  }
  if (token.text == "none" || token.text == "None") return Constant(token.line, Value());
  return nullptr;
}

absl::StatusOr<ExpressionPtr> NumberConstant(const Token& token) {
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == Token::Kind::kFloat) {
    double number = 0;
    if (std::from_chars(token.text.data(), end, number).ec != std::errc()) {
      return TemplateError(token.line, absl::StrCat(token.text, " is not a number that fits"));
    }
    return Constant(token.line, Value::Of(number));
  }
  int64_t integer = 0;
  if (std::from_chars(token.text.data(), end, integer).ec != std::errc()) {
    return TemplateError(token.line, absl::StrCat(token.text, " is beyond 64 bits"));
  }
  return Constant(token.line, Value::Of(integer));
}

// Counts the recursion of the parser, so that no template can exhaust the stack.
class Opened {
 public:
  explicit Opened(int& count) : count_(++count) {}
  ~Opened() { --count_; }

 private:
  int& count_;
};

}  // namespace

ExpressionParser::Result ExpressionParser::Finish(ExpressionPtr node) const {
  int depth = 0;
  for (const ExpressionPtr& operand : node->operands) {
    if (operand != nullptr) depth = std::max(depth, operand->depth);
  }
  for (const auto& [name, operand] : node->keywords) depth = std::max(depth, operand->depth);
  node->depth = depth + 1;
  if (node->depth > kMaxNesting)
    return TemplateError(node->line, "an expression nested too deeply");
  return node;
}

ExpressionParser::Result ExpressionParser::Binary(Kind kind, std::string name, ExpressionPtr left,
                                                  ExpressionPtr right) {
  ExpressionPtr node = Make(kind, left->line, std::move(name));
  node->operands.push_back(std::move(left));
  node->operands.push_back(std::move(right));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseTuple(bool conditional) {
  const int line = tokens_.Current().line;
  const auto parse = [&] { return conditional ? ParseExpression() : ParseOr(); };
  ASSIGN_OR_RETURN(ExpressionPtr first, parse());
  if (!tokens_.IsOperator(",")) return first;
  ExpressionPtr tuple = Make(Kind::kTuple, line);
  tuple->operands.push_back(std::move(first));
  while (tokens_.TakeOperator(",")) {
    const bool ends = tokens_.Is(Token::Kind::kVariableEnd) || tokens_.Is(Token::Kind::kBlockEnd) ||
                      tokens_.IsOperator(")");
    if (ends) break;
    ASSIGN_OR_RETURN(ExpressionPtr item, parse());
    tuple->operands.push_back(std::move(item));
  }
  return Finish(std::move(tuple));
}

ExpressionParser::Result ExpressionParser::ParseExpression() { return ParseConditional(); }

ExpressionParser::Result ExpressionParser::ParseConditional() {
  const Opened opened(open_);
  if (open_ > kMaxNesting) {
    return TemplateError(tokens_.Current().line, "an expression nested too deeply");
  }
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseOr());
  while (tokens_.IsName("if")) {
    ExpressionPtr conditional = Make(Kind::kConditional, tokens_.Current().line);
    tokens_.Advance();
    ASSIGN_OR_RETURN(ExpressionPtr condition, ParseOr());
    ExpressionPtr otherwise;
    if (tokens_.TakeName("else")) {
      ASSIGN_OR_RETURN(otherwise, ParseConditional());
    }
    conditional->operands.push_back(std::move(condition));
    conditional->operands.push_back(std::move(node));
    conditional->operands.push_back(std::move(otherwise));
    ASSIGN_OR_RETURN(node, Finish(std::move(conditional)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseOr() {
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseAnd());
  while (tokens_.TakeName("or")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseAnd());
    ASSIGN_OR_RETURN(node, Binary(Kind::kOr, "or", std::move(node), std::move(right)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseAnd() {
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseNot());
  while (tokens_.TakeName("and")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseNot());
    ASSIGN_OR_RETURN(node, Binary(Kind::kAnd, "and", std::move(node), std::move(right)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseNot() {
  if (!tokens_.IsName("not")) return ParseCompare();
  const Opened opened(open_);
  ExpressionPtr node = Make(Kind::kNot, tokens_.Current().line);
  if (open_ > kMaxNesting) return TemplateError(node->line, "an expression nested too deeply");
  tokens_.Advance();
  ASSIGN_OR_RETURN(ExpressionPtr operand, ParseNot());
  node->operands.push_back(std::move(operand));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseCompare() {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseSum());
  ExpressionPtr node = Make(Kind::kCompare, first->line);
  node->operands.push_back(std::move(first));
  while (true) {
    std::string name;
    for (const std::string_view text : kOperators) {
      if (tokens_.IsOperator(text)) name = std::string(text);
    }
    if (tokens_.IsName("in")) name = "in";
    const Token& next = tokens_.Next();
    if (tokens_.IsName("not") && next.kind == Token::Kind::kName && next.text == "in") {
      name = "not in";
      tokens_.Advance();
    }
    if (name.empty()) break;
    tokens_.Advance();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseSum());
    node->operators.push_back(std::move(name));
    node->operands.push_back(std::move(right));
  }
  if (node->operators.empty()) return std::move(node->operands[0]);
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseSum() {
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseConcatenation());
  while (tokens_.IsOperator("+") || tokens_.IsOperator("-")) {
    std::string name = tokens_.Current().text;
    tokens_.Advance();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseConcatenation());
    ASSIGN_OR_RETURN(node,
                     Binary(Kind::kBinary, std::move(name), std::move(node), std::move(right)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParseConcatenation() {
  ASSIGN_OR_RETURN(ExpressionPtr first, ParseProduct());
  if (!tokens_.IsOperator("~")) return first;
  ExpressionPtr node = Make(Kind::kConcatenate, first->line);
  node->operands.push_back(std::move(first));
  while (tokens_.TakeOperator("~")) {
    ASSIGN_OR_RETURN(ExpressionPtr more, ParseProduct());
    node->operands.push_back(std::move(more));
  }
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseProduct() {
  ASSIGN_OR_RETURN(ExpressionPtr node, ParsePower());
  while (tokens_.IsOperator("*") || tokens_.IsOperator("/") || tokens_.IsOperator("//") ||
         tokens_.IsOperator("%")) {
    std::string name = tokens_.Current().text;
    tokens_.Advance();
    ASSIGN_OR_RETURN(ExpressionPtr right, ParsePower());
    ASSIGN_OR_RETURN(node,
                     Binary(Kind::kBinary, std::move(name), std::move(node), std::move(right)));
  }
  return node;
}

ExpressionParser::Result ExpressionParser::ParsePower() {
  ASSIGN_OR_RETURN(ExpressionPtr node, ParseUnary(true));
  while (tokens_.TakeOperator("**")) {
    ASSIGN_OR_RETURN(ExpressionPtr right, ParseUnary(true));
    ASSIGN_OR_RETURN(node, Binary(Kind::kBinary, "**", std::move(node), std::move(right)));
  }
  return node;
}

// Filters bind to the signed operand: -1|abs is 1.
ExpressionParser::Result ExpressionParser::ParseUnary(bool with_filters) {
  const Opened opened(open_);
  const int line = tokens_.Current().line;
  if (open_ > kMaxNesting) return TemplateError(line, "an expression nested too deeply");
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const Kind kind = tokens_.IsOperator("-") ? Kind::kNegative : Kind::kPositive;
    tokens_.Advance();
    ASSIGN_OR_RETURN(ExpressionPtr operand, ParseUnary(false));
    node = Make(kind, line);
    node->operands.push_back(std::move(operand));
    ASSIGN_OR_RETURN(node, Finish(std::move(node)));
  } else {
    ASSIGN_OR_RETURN(node, ParsePrimary());
  }
  ASSIGN_OR_RETURN(node, ParsePostfix(std::move(node)));
  if (with_filters) return ParseFilters(std::move(node));
  return node;
}

ExpressionParser::Result ExpressionParser::ParsePrimary() {
  const Token token = tokens_.Current();
  switch (token.kind) {
    case Token::Kind::kName: {
      tokens_.Advance();
      ExpressionPtr constant = NamedConstant(token);
      return constant != nullptr ? std::move(constant) : Make(Kind::kName, token.line, token.text);
    }
    case Token::Kind::kString: {
      std::string text;
      while (tokens_.Is(Token::Kind::kString)) {  // texts side by side are one
        text += tokens_.Current().text;
        tokens_.Advance();
      }
      return Constant(token.line, Value::Text(std::move(text)));
    }
    case Token::Kind::kInteger:
    case Token::Kind::kFloat:
      tokens_.Advance();
      return NumberConstant(token);
    default:
      break;
  }
  if (tokens_.TakeOperator("(")) {
    if (tokens_.TakeOperator(")")) return Make(Kind::kTuple, token.line);
    ASSIGN_OR_RETURN(ExpressionPtr inner, ParseTuple(true));
    RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    return inner;
  }
  if (tokens_.IsOperator("[")) return ParseList();
  if (tokens_.IsOperator("{")) return ParseDict();
  return tokens_.Unexpected("an expression");
}

ExpressionParser::Result ExpressionParser::ParseList() {
  ExpressionPtr node = Make(Kind::kList, tokens_.Current().line);
  tokens_.Advance();
  while (!tokens_.IsOperator("]")) {
    ASSIGN_OR_RETURN(ExpressionPtr item, ParseExpression());
    node->operands.push_back(std::move(item));
    if (!tokens_.TakeOperator(",")) break;
  }
  RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParseDict() {
  ExpressionPtr node = Make(Kind::kDict, tokens_.Current().line);
  tokens_.Advance();
  while (!tokens_.IsOperator("}")) {
    ASSIGN_OR_RETURN(ExpressionPtr key, ParseExpression());
    RETURN_IF_ERROR(tokens_.ExpectOperator(":"));
    ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
    node->operands.push_back(std::move(key));
    node->operands.push_back(std::move(value));
    if (!tokens_.TakeOperator(",")) break;
  }
  RETURN_IF_ERROR(tokens_.ExpectOperator("}"));
  return Finish(std::move(node));
}

ExpressionParser::Result ExpressionParser::ParsePostfix(ExpressionPtr node) {
  while (true) {
    if (tokens_.IsOperator(".") || tokens_.IsOperator("[")) {
      ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (tokens_.IsOperator("(")) {
      ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseSubscript(ExpressionPtr node) {
  const int line = tokens_.Current().line;
  if (tokens_.TakeOperator(".")) {
    if (tokens_.Is(Token::Kind::kInteger)) {
      ASSIGN_OR_RETURN(ExpressionPtr index, NumberConstant(tokens_.Current()));
      tokens_.Advance();
      return Binary(Kind::kItem, "", std::move(node), std::move(index));
    }
    ASSIGN_OR_RETURN(std::string name, tokens_.ExpectName());
    ExpressionPtr attribute = Make(Kind::kAttribute, line, std::move(name));
    attribute->operands.push_back(std::move(node));
    return Finish(std::move(attribute));
  }
  tokens_.Advance();
  ExpressionPtr index;
  if (!tokens_.IsOperator(":")) {
    ASSIGN_OR_RETURN(index, ParseExpression());
  }
  if (tokens_.IsOperator(":")) return ParseSlice(std::move(node), std::move(index), line);
  RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Binary(Kind::kItem, "", std::move(node), std::move(index));
}

ExpressionParser::Result ExpressionParser::ParseSlice(ExpressionPtr node, ExpressionPtr begin,
                                                      int line) {
  ExpressionPtr slice = Make(Kind::kSlice, line);
  slice->operands.push_back(std::move(node));
  slice->operands.push_back(std::move(begin));
  while (slice->operands.size() < 4 && tokens_.TakeOperator(":")) {
    ExpressionPtr bound;
    if (!tokens_.IsOperator(":") && !tokens_.IsOperator("]")) {
      ASSIGN_OR_RETURN(bound, ParseExpression());
    }
    slice->operands.push_back(std::move(bound));
  }
  slice->operands.resize(4);
  RETURN_IF_ERROR(tokens_.ExpectOperator("]"));
  return Finish(std::move(slice));
}

ExpressionParser::Result ExpressionParser::ParseFilters(ExpressionPtr node) {
  while (true) {
    if (tokens_.TakeOperator("|")) {
      ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
    } else if (tokens_.IsName("is")) {
      ASSIGN_OR_RETURN(node, ParseTest(std::move(node)));
    } else if (tokens_.IsOperator("(")) {
      ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else {
      return node;
    }
  }
}

ExpressionParser::Result ExpressionParser::ParseFilter(ExpressionPtr node) {
  const int line = tokens_.Current().line;
  ASSIGN_OR_RETURN(std::string name, tokens_.ExpectName());
  ExpressionPtr filter = Make(Kind::kFilter, line, std::move(name));
  filter->operands.push_back(std::move(node));
  if (tokens_.IsOperator("(")) RETURN_IF_ERROR(ParseArguments(*filter));
  return Finish(std::move(filter));
}

ExpressionParser::Result ExpressionParser::ParseBlockFilters() {
  ExpressionPtr node;
  do {
    ASSIGN_OR_RETURN(node, ParseFilter(std::move(node)));
  } while (tokens_.TakeOperator("|"));
  return node;
}

ExpressionParser::Result ExpressionParser::ParseTest(ExpressionPtr node) {
  tokens_.Advance();
  const int line = tokens_.Current().line;
  const bool negated = tokens_.TakeName("not");
  ASSIGN_OR_RETURN(std::string name, tokens_.ExpectName());
  ExpressionPtr test = Make(Kind::kTest, line, std::move(name));
  test->operands.push_back(std::move(node));
  const Token& next = tokens_.Current();
  const bool operand = next.kind == Token::Kind::kName || next.kind == Token::Kind::kString ||
                       next.kind == Token::Kind::kInteger || next.kind == Token::Kind::kFloat ||
                       tokens_.IsOperator("[") || tokens_.IsOperator("{");
  if (tokens_.IsOperator("(")) {
    RETURN_IF_ERROR(ParseArguments(*test));
  } else if (operand && !tokens_.IsName("else") && !tokens_.IsName("or") &&
             !tokens_.IsName("and")) {
    if (tokens_.IsName("is")) return tokens_.Unexpected("no chain of tests");
    ASSIGN_OR_RETURN(ExpressionPtr argument, ParsePrimary());
    ASSIGN_OR_RETURN(argument, ParsePostfix(std::move(argument)));
    test->operands.push_back(std::move(argument));
  }
  ASSIGN_OR_RETURN(test, Finish(std::move(test)));
  if (!negated) return test;
  ExpressionPtr negation = Make(Kind::kNot, line);
  negation->operands.push_back(std::move(test));
  return Finish(std::move(negation));
}

ExpressionParser::Result ExpressionParser::ParseCall(ExpressionPtr node) {
  ExpressionPtr call = Make(Kind::kCall, tokens_.Current().line);
  call->operands.push_back(std::move(node));
  RETURN_IF_ERROR(ParseArguments(*call));
  return Finish(std::move(call));
}

absl::Status ExpressionParser::ParseArguments(Expression& call) {
  RETURN_IF_ERROR(tokens_.ExpectOperator("("));
  while (!tokens_.IsOperator(")")) {
    if (tokens_.IsOperator("*") || tokens_.IsOperator("**")) {
      return TemplateError(tokens_.Current().line, "arguments with * are not supported");
    }
    const Token& next = tokens_.Next();
    const bool keyword =
        tokens_.Is(Token::Kind::kName) && next.kind == Token::Kind::kOperator && next.text == "=";
    if (keyword) {
      std::string name = tokens_.Current().text;
      tokens_.Advance();
      tokens_.Advance();
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call.keywords.emplace_back(std::move(name), std::move(value));
    } else {
      if (!call.keywords.empty()) return tokens_.Unexpected("NAME=VALUE");
      ASSIGN_OR_RETURN(ExpressionPtr value, ParseExpression());
      call.operands.push_back(std::move(value));
    }
    if (!tokens_.TakeOperator(",")) break;
  }
  return tokens_.ExpectOperator(")");
}

}  // namespace strata::data::jinja
