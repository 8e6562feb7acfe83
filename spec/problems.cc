#include "spec/problems.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::spec {

void Problems::Add(Problem problem) {
  ++count_;
  any_invalid_ |= problem.kind == ProblemKind::kInvalid;
  if (full()) return;
  if (!problem.path.empty()) concerned_.insert(problem.path);
  problems_.push_back(std::move(problem));
}

bool Problems::Concerns(absl::string_view path) const {
  if (concerned_.count(std::string(path)) > 0) return true;
  for (size_t i = path.size(); i-- > 0;) {
    if (path[i] != '.' && path[i] != '[') continue;
    if (concerned_.count(std::string(path.substr(0, i))) > 0) return true;
  }
  return false;
}

std::vector<Problem> Problems::Sorted() const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Problem& a, const Problem& b) {
    return std::make_tuple(a.position.in_set, a.position.line, a.position.column) <
           std::make_tuple(b.position.in_set, b.position.line, b.position.column);
  });
  return sorted;
}

std::string Problems::ToString() const {
  std::string text;
  for (const Problem& problem : Sorted()) {
    absl::StrAppend(&text, problem.position.in_set ? "--set" : file_, ":", problem.position.line,
                    ":", problem.position.column, ": ", problem.path,
                    problem.path.empty() ? "" : ": ", problem.what,
                    problem.remedy.empty() ? "" : " — ", problem.remedy, "\n");
  }
  if (count_ > problems_.size()) {
    absl::StrAppend(&text, file_, ": and ", count_ - problems_.size(), " more problems\n");
  }
  return text;
}

absl::Status Problems::ToStatus() const {
  if (empty()) return absl::OkStatus();
  if (any_invalid_) return absl::InvalidArgumentError(ToString());
  return absl::ResourceExhaustedError(ToString());
}

std::string Shown(absl::string_view text, size_t most) {
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xc0) == 0x80;  // inside a character of several bytes
    if (shown.size() >= most && !continues) return shown + "…";
    if (byte < 0x20 || byte == 0x7f) {
      absl::StrAppendFormat(&shown, "\\x%02x", byte);
    } else {
      shown.push_back(c);
    }
  }
  return shown;
}

}  // namespace strata::spec
