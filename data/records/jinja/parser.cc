#include "data/records/jinja/parser.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/records/jinja/expression_parser.h"
#include "data/records/jinja/lexer.h"
#include "data/records/jinja/token_stream.h"
#include "data/tokenizer/utf8.h"

namespace strata::data::jinja {
namespace {

using Kind = Statement::Kind;
using StatementPtr = std::unique_ptr<Statement>;
using Result = absl::StatusOr<StatementPtr>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)), expressions_(tokens_) {}

  absl::StatusOr<Block> Run() {
    ASSIGN_OR_RETURN(Block block, ParseBlock({}));
    if (!tokens_.Is(Token::Kind::kEnd)) return tokens_.Unexpected("text or a tag");
    return block;
  }

 private:
  // Up to a block that begins with one of `ends`, whose name is then the current token; up to the
  // end of the template if there are none.
  absl::StatusOr<Block> ParseBlock(const std::vector<std::string_view>& ends) {
    Block block;
    if (++nesting_ > kMaxNesting / 4) {
      return TemplateError(tokens_.Current().line, "blocks nested too deeply");
    }
    while (!tokens_.Is(Token::Kind::kEnd)) {
      const Token token = tokens_.Current();
      tokens_.Advance();
      if (token.kind == Token::Kind::kData) {
        StatementPtr text = Make(Kind::kText, token.line);
        text->text = token.text;
        block.push_back(std::move(text));
      } else if (token.kind == Token::Kind::kVariableBegin) {
        StatementPtr print = Make(Kind::kPrint, token.line);
        ASSIGN_OR_RETURN(print->value, expressions_.ParseTuple(true));
        RETURN_IF_ERROR(tokens_.Expect(Token::Kind::kVariableEnd));
        block.push_back(std::move(print));
      } else {
        const auto ends_here = [&](std::string_view end) { return tokens_.IsName(end); };
        if (std::any_of(ends.begin(), ends.end(), ends_here)) {
          --nesting_;
          return block;
        }
        ASSIGN_OR_RETURN(StatementPtr statement, ParseStatement());
        block.push_back(std::move(statement));
      }
    }
    if (!ends.empty()) {
      return tokens_.Unexpected(absl::StrCat("{% ", std::string(ends.back()), " %}"));
    }
    --nesting_;
    return block;
  }

  static StatementPtr Make(Kind kind, int line) {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = line;
    return statement;
  }

  absl::Status EndOfTag() { return tokens_.Expect(Token::Kind::kBlockEnd); }
  absl::Status EndOfBlock(std::string_view name) {
    if (!tokens_.TakeName(name)) return tokens_.Unexpected(name);
    return EndOfTag();
  }

  Result ParseStatement() {
    const int line = tokens_.Current().line;
    ASSIGN_OR_RETURN(const std::string name, tokens_.ExpectName());
    if (name == "if") return ParseIf(line);
    if (name == "for") return ParseFor(line);
    if (name == "set") return ParseSet(line);
    if (name == "macro") return ParseMacro(line);
    if (name == "generation") {
      StatementPtr generation = Make(Kind::kGeneration, line);
      RETURN_IF_ERROR(EndOfTag());
      ASSIGN_OR_RETURN(generation->body, ParseBlock({"endgeneration"}));
      RETURN_IF_ERROR(EndOfBlock("endgeneration"));
      return generation;
    }
    if (name == "filter") {
      StatementPtr filter = Make(Kind::kFilterBlock, line);
      ASSIGN_OR_RETURN(filter->value, expressions_.ParseBlockFilters());
      RETURN_IF_ERROR(EndOfTag());
      ASSIGN_OR_RETURN(filter->body, ParseBlock({"endfilter"}));
      RETURN_IF_ERROR(EndOfBlock("endfilter"));
      return filter;
    }
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return TemplateError(line, absl::StrCat(name, " outside of a loop"));
      RETURN_IF_ERROR(EndOfTag());
      return Make(name == "break" ? Kind::kBreak : Kind::kContinue, line);
    }
    return TemplateError(line, absl::StrCat("{% ", name, " %} is unknown or not supported here"));
  }

  Result ParseIf(int line) {
    StatementPtr statement = Make(Kind::kIf, line);
    while (true) {
      Statement::Branch branch;
      ASSIGN_OR_RETURN(branch.condition, expressions_.ParseTuple(true));
      RETURN_IF_ERROR(EndOfTag());
      ASSIGN_OR_RETURN(branch.body, ParseBlock({"elif", "else", "endif"}));
      statement->branches.push_back(std::move(branch));
      if (!tokens_.TakeName("elif")) break;
    }
    if (tokens_.TakeName("else")) {
      RETURN_IF_ERROR(EndOfTag());
      ASSIGN_OR_RETURN(statement->otherwise, ParseBlock({"endif"}));
    }
    RETURN_IF_ERROR(EndOfBlock("endif"));
    return statement;
  }

  Result ParseFor(int line) {
    StatementPtr statement = Make(Kind::kFor, line);
    RETURN_IF_ERROR(ParseTargets(*statement, "in", false));
    if (!tokens_.TakeName("in")) return tokens_.Unexpected("'in'");
    ASSIGN_OR_RETURN(statement->value, expressions_.ParseTuple(false));
    if (tokens_.TakeName("if")) {
      ASSIGN_OR_RETURN(statement->condition, expressions_.ParseExpression());
    }
    if (tokens_.IsName("recursive")) {
      return TemplateError(line, "recursive loops are not supported");
    }
    RETURN_IF_ERROR(EndOfTag());
    ++loops_;
    ASSIGN_OR_RETURN(statement->body, ParseBlock({"else", "endfor"}));
    --loops_;
    if (tokens_.TakeName("else")) {
      RETURN_IF_ERROR(EndOfTag());
      ASSIGN_OR_RETURN(statement->otherwise, ParseBlock({"endfor"}));
    }
    RETURN_IF_ERROR(EndOfBlock("endfor"));
    return statement;
  }

  // `a`, `a, b`, `(a, b)`, and of a `set` also `a.b`.
  absl::Status ParseTargets(Statement& statement, std::string_view end, bool attributes) {
    const bool bracket = tokens_.TakeOperator("(");
    do {
      if (tokens_.IsName(end) || tokens_.IsOperator(end)) break;
      Statement::Target target;
      ASSIGN_OR_RETURN(target.name, tokens_.ExpectName());
      if (attributes && tokens_.TakeOperator(".")) {
        ASSIGN_OR_RETURN(target.attribute, tokens_.ExpectName());
      }
      statement.targets.push_back(std::move(target));
      statement.unpacks = statement.unpacks || tokens_.IsOperator(",");
    } while (tokens_.TakeOperator(","));
    if (statement.targets.empty()) return tokens_.Unexpected("a name");
    return bracket ? tokens_.ExpectOperator(")") : absl::OkStatus();
  }

  Result ParseSet(int line) {
    StatementPtr statement = Make(Kind::kSet, line);
    RETURN_IF_ERROR(ParseTargets(*statement, "=", true));
    if (tokens_.TakeOperator("=")) {
      ASSIGN_OR_RETURN(statement->value, expressions_.ParseTuple(true));
      RETURN_IF_ERROR(EndOfTag());
      return statement;
    }
    statement->kind = Kind::kSetBlock;
    if (statement->unpacks) return tokens_.Unexpected("'='");
    if (tokens_.TakeOperator("|")) {
      ASSIGN_OR_RETURN(statement->value, expressions_.ParseBlockFilters());
    }
    RETURN_IF_ERROR(EndOfTag());
    ASSIGN_OR_RETURN(statement->body, ParseBlock({"endset"}));
    RETURN_IF_ERROR(EndOfBlock("endset"));
    return statement;
  }

  Result ParseMacro(int line) {
    StatementPtr statement = Make(Kind::kMacro, line);
    ASSIGN_OR_RETURN(statement->text, tokens_.ExpectName());
    RETURN_IF_ERROR(tokens_.ExpectOperator("("));
    while (!tokens_.IsOperator(")")) {
      Statement::Parameter parameter;
      ASSIGN_OR_RETURN(parameter.name, tokens_.ExpectName());
      if (tokens_.TakeOperator("=")) {
        ASSIGN_OR_RETURN(parameter.standard, expressions_.ParseExpression());
      }
      statement->parameters.push_back(std::move(parameter));
      if (!tokens_.TakeOperator(",")) break;
    }
    RETURN_IF_ERROR(tokens_.ExpectOperator(")"));
    RETURN_IF_ERROR(EndOfTag());
    const int loops = std::exchange(loops_, 0);
    ASSIGN_OR_RETURN(statement->body, ParseBlock({"endmacro"}));
    loops_ = loops;
    RETURN_IF_ERROR(EndOfBlock("endmacro"));
    return statement;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int nesting_ = 0;
  int loops_ = 0;  // around the current place
};

}  // namespace

absl::StatusOr<Block> ParseTemplate(std::string_view source) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("template: ", source.size(), " bytes, at most ", kMaxTemplateBytes));
  }
  if (FindInvalidUtf8(source) != std::string_view::npos)
    return absl::InvalidArgumentError("template: is not valid UTF-8");
  ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(std::move(tokens)).Run();
}

}  // namespace strata::data::jinja
