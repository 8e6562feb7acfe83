// A parsed template. Trees are at most kMaxNesting deep, so they can be walked by recursion.
#ifndef STRATA_DATA_RECORDS_JINJA_AST_H_
#define STRATA_DATA_RECORDS_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/records/jinja/value.h"

namespace strata::data::jinja {

inline constexpr int kMaxNesting = 120;

struct Expression {
  enum class Kind {
    kConstant,     // constant
    kName,         // name
    kList,         // operands
    kTuple,        // operands
    kDict,         // operands: key, value, key, value, …
    kAttribute,    // operands[0] . name
    kItem,         // operands[0] [operands[1]]
    kSlice,        // operands[0] [operands[1] : operands[2] : operands[3]], the last three or null
    kCall,         // operands[0] (operands[1…], keywords)
    kFilter,       // operands[0] | name (operands[1…], keywords); operands[0] null: of a block
    kTest,         // operands[0] is name (operands[1…], keywords)
    kNegative,     // - operands[0]
    kPositive,     // + operands[0]
    kNot,          // not operands[0]
    kBinary,       // operands[0] name operands[1]: + - * / // % **
    kConcatenate,  // operands[0] ~ operands[1] ~ …
    kCompare,  // operands[0] operators[0] operands[1] operators[1] …: == != < <= > >= in "not in"
    kAnd,      // operands[0] and operands[1]
    kOr,       // operands[0] or operands[1]
    kConditional,  // operands[1] if operands[0] else operands[2], the last or null
  };
  Kind kind = Kind::kConstant;
  int line = 1;
  int depth = 1;
  Value constant;
  std::string name;
  std::vector<std::string> operators;
  std::vector<std::unique_ptr<Expression>> operands;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> keywords;
};
using ExpressionPtr = std::unique_ptr<Expression>;

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  enum class Kind {
    kText,         // text
    kPrint,        // value
    kIf,           // branches, otherwise
    kFor,          // targets in value, if condition (or null): body; otherwise
    kSet,          // targets = value
    kSetBlock,     // targets[0] = body, through the filters of value (or null)
    kFilterBlock,  // body, through the filters of value
    kMacro,        // name, parameters, body
    kGeneration,   // body: what the assistant wrote
    kBreak,
    kContinue,
  };
  struct Target {
    std::string name;
    std::string attribute;  // of a namespace; or empty
  };
  struct Branch {
    ExpressionPtr condition;
    Block body;
  };
  struct Parameter {
    std::string name;
    ExpressionPtr standard;  // or null
  };
  Kind kind = Kind::kText;
  int line = 1;
  std::string text;  // or the macro's name
  ExpressionPtr value;
  ExpressionPtr condition;
  std::vector<Target> targets;
  bool unpacks = false;  // targets were written with commas
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  Block body;
  Block otherwise;
};

}  // namespace strata::data::jinja

#endif  // STRATA_DATA_RECORDS_JINJA_AST_H_
