// What is wrong with a file that a user wrote: every problem with its place and its field path,
// collected and told all at once.
#ifndef STRATA_SPEC_PROBLEMS_H_
#define STRATA_SPEC_PROBLEMS_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace strata::spec {

// A place in the file, or in a `--set` argument. Counted from 1; columns count bytes.
struct Position {
  int line = 1;
  int column = 1;
  bool in_set = false;  // in a `--set PATH=VALUE` instead of the file
};

enum class ProblemKind {
  kInvalid,     // the file must change: exit code 2
  kInfeasible,  // well formed, but no layout or machine can do it: exit code 3
};

// Printed as `FILE:LINE:COLUMN: PATH: WHAT — REMEDY`. `path` and `remedy` may be empty; `what`
// holds its reason in parentheses.
struct Problem {
  Position position;
  std::string path;
  std::string what;
  std::string remedy;
  ProblemKind kind = ProblemKind::kInvalid;
};

// Keeps at most kMost problems and counts the rest, so that a hostile file cannot make it grow.
class Problems {
 public:
  static constexpr size_t kMost = 50;

  // `file` is printed as the user wrote it.
  explicit Problems(std::string file) : file_(std::move(file)) {}

  void Add(Problem problem);
  // The value at `path` is not what the user meant (a misspelt key stands for it): no more is to be
  // said about it.
  void MarkDoubtful(absl::string_view path) { concerned_.insert(std::string(path)); }

  bool empty() const { return count_ == 0; }
  // Problems added, also those not kept.
  size_t count() const { return count_; }
  // Whether nothing more is kept: then making up good messages is wasted work.
  bool full() const { return problems_.size() >= kMost; }
  const std::string& file() const { return file_; }
  // Whether `path`, or a section that it lies in, already has a problem.
  bool Concerns(absl::string_view path) const;
  // Sorted by place.
  std::vector<Problem> Sorted() const;
  // One line per problem, sorted by place; a last line counts those that were not kept.
  std::string ToString() const;
  // OK when empty; InvalidArgument when any problem is kInvalid, else ResourceExhausted. The
  // message is ToString().
  absl::Status ToStatus() const;

 private:
  std::string file_;
  size_t count_ = 0;
  bool any_invalid_ = false;
  std::vector<Problem> problems_;
  std::set<std::string> concerned_;  // paths
};

// `text` as a message may show it: in one line, printable, at most `most` bytes.
std::string Shown(absl::string_view text, size_t most = 48);

}  // namespace strata::spec

#endif  // STRATA_SPEC_PROBLEMS_H_
