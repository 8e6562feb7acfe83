// Where the commands print, and how: results on `out`, messages on `err`.
#ifndef STRATA_CLIENT_TERMINAL_TERMINAL_H_
#define STRATA_CLIENT_TERMINAL_TERMINAL_H_

#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"

namespace strata::client {

enum class Style { kPlain, kBold, kDim, kGood, kWarning, kBad };

class Terminal {
 public:
  struct Options {
    bool color = false;
    bool animate = false;  // `err` is a terminal: lines may be rewritten
    bool unicode = true;   // the locale shows more than ASCII
    bool quiet = false;
    int width = 80;
  };

  // The streams stay the caller's.
  Terminal(std::FILE* out, std::FILE* err, const Options& options)
      : out_(out), err_(err), options_(options) {}

  const Options& options() const { return options_; }
  void set_quiet() { options_.quiet = true; }
  void set_colorless() { options_.color = false; }

  // A result, as it is.
  void Out(absl::string_view text);
  // Why a result could not be written, as an errno; 0: all were.
  int out_error() const { return out_error_; }
  // An error: always shown. Adds a missing newline.
  void Error(absl::string_view text);
  // A message for people: not shown with -q. Adds a missing newline.
  void Say(absl::string_view text);
  // A line that the next one replaces, where that is possible; otherwise nothing.
  void Transient(absl::string_view line);

  std::string Paint(Style style, absl::string_view text) const;

 private:
  void Line(absl::string_view text);
  void ClearTransient();

  std::FILE* out_;
  std::FILE* err_;
  Options options_;
  int out_error_ = 0;
  bool transient_ = false;  // such a line stands there now
};

// What the environment says: terminal or not, NO_COLOR, TERM, LANG, the window's width.
Terminal::Options DetectTerminal();

}  // namespace strata::client

#endif  // STRATA_CLIENT_TERMINAL_TERMINAL_H_
