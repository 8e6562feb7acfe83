// Names of many: `n[0000-0383]`, with texts that follow from a number: `d{i/2}`.
#ifndef STRATA_TOPOLOGY_IMPORT_NAME_RANGE_H_
#define STRATA_TOPOLOGY_IMPORT_NAME_RANGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace strata::topology {

// What one text in a file may stand for at most, all files together.
inline constexpr int64_t kMostNodes = 1'000'000;

// The numbers of one pair of brackets: "0000-0383", "1-4,7". As many digits as the first number of
// each range is written with when it begins with a zero.
class NumberRange {
 public:
  // `text` without brackets. InvalidArgument says why it is refused, without repeating it.
  static absl::StatusOr<NumberRange> Parse(absl::string_view text);

  struct Piece {
    int64_t first = 0;
    int64_t last = 0;
    size_t width = 0;
  };
  const std::vector<Piece>& pieces() const { return pieces_; }
  int64_t count() const { return count_; }  // 1 … kMostNodes
  static std::string TextOf(int64_t number, size_t width);

 private:
  std::vector<Piece> pieces_;
  int64_t count_ = 0;
};

// The names that a host list stands for, in its order: `a,n[001-004,7]x[0-1]` as Slurm writes them
// (the last brackets run fastest). InvalidArgument; ResourceExhausted beyond kMostNodes.
absl::StatusOr<std::vector<std::string>> ExpandHosts(absl::string_view list);

// A text with whole-number arithmetic of `i` in braces: + - * / % and parentheses.
class NumberedText {
 public:
  // InvalidArgument says why the text is refused, without repeating it.
  static absl::StatusOr<NumberedText> Parse(absl::string_view text);
  // InvalidArgument on division by zero and beyond 64 bits.
  absl::StatusOr<std::string> For(int64_t i) const;

 private:
  friend class ExpressionParser;
  struct Operation {
    char code = 0;  // + - * / %, or '#' for a constant, 'i'
    int64_t value = 0;
  };
  struct Part {
    std::string literal;                // first this,
    std::vector<Operation> expression;  // then the value of this, in postfix order; may be empty
  };
  std::vector<Part> parts_;
};

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_IMPORT_NAME_RANGE_H_
