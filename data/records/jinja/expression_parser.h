// Reads expressions from tokens, with Jinja's grammar and precedence.
#ifndef STRATA_DATA_RECORDS_JINJA_EXPRESSION_PARSER_H_
#define STRATA_DATA_RECORDS_JINJA_EXPRESSION_PARSER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/records/jinja/ast.h"
#include "data/records/jinja/token_stream.h"

namespace strata::data::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // With commas a tuple. `conditional`: `a if b else c` belongs to it.
  absl::StatusOr<ExpressionPtr> ParseTuple(bool conditional);
  absl::StatusOr<ExpressionPtr> ParseExpression();
  // Filters of a block: `name(…) | name(…)`, the innermost without an operand.
  absl::StatusOr<ExpressionPtr> ParseBlockFilters();

 private:
  using Result = absl::StatusOr<ExpressionPtr>;
  Result ParseConditional();
  Result ParseOr();
  Result ParseAnd();
  Result ParseNot();
  Result ParseCompare();
  Result ParseSum();
  Result ParseConcatenation();
  Result ParseProduct();
  Result ParsePower();
  Result ParseUnary(bool with_filters);
  Result ParsePrimary();
  Result ParseList();
  Result ParseDict();
  Result ParsePostfix(ExpressionPtr node);
  Result ParseSubscript(ExpressionPtr node);
  Result ParseSlice(ExpressionPtr node, ExpressionPtr begin, int line);
  Result ParseFilters(ExpressionPtr node);
  Result ParseFilter(ExpressionPtr node);
  Result ParseTest(ExpressionPtr node);
  Result ParseCall(ExpressionPtr node);
  absl::Status ParseArguments(Expression& call);
  // Checks how deep the tree is.
  Result Finish(ExpressionPtr node) const;
  Result Binary(Expression::Kind kind, std::string name, ExpressionPtr left, ExpressionPtr right);

  TokenStream& tokens_;
  int open_ = 0;  // recursion of this parser
};

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_EXPRESSION_PARSER_H_
