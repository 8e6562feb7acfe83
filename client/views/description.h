// Everything about one thing, for people: a label and a value a line.
#ifndef STRATA_CLIENT_VIEWS_DESCRIPTION_H_
#define STRATA_CLIENT_VIEWS_DESCRIPTION_H_

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

namespace strata::client {

class Description {
 public:
  // Nothing is said of an empty value.
  void Add(absl::string_view label, absl::string_view value) {
    if (!value.empty()) {
      absl::StrAppendFormat(&text_, "%-14s %s\n", absl::StrCat(label, ":"), value);
    }
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_DESCRIPTION_H_
