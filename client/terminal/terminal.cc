#include "client/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace strata::client {
namespace {

bool Put(std::FILE* file, absl::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size();
}

// The environment variable's value; empty when it is not set.
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

void Terminal::ClearTransient() {
  if (transient_) Put(err_, "\r\x1b[K");
  transient_ = false;
}

void Terminal::Line(absl::string_view text) {
  ClearTransient();
  Put(err_, text);
  if (!absl::EndsWith(text, "\n")) Put(err_, "\n");
  std::fflush(err_);
}

void Terminal::Out(absl::string_view text) {
  ClearTransient();
  std::fflush(err_);
  errno = 0;
  const bool written = Put(out_, text);
  const bool flushed = std::fflush(out_) == 0;
  if ((!written || !flushed) && out_error_ == 0) out_error_ = errno != 0 ? errno : EIO;
}

void Terminal::Error(absl::string_view text) { Line(text); }

void Terminal::Say(absl::string_view text) {
  if (!options_.quiet) Line(text);
}

void Terminal::Transient(absl::string_view line) {
  if (!options_.animate || options_.quiet) return;
  ClearTransient();
  Put(err_, line);
  std::fflush(err_);
  transient_ = true;
}

std::string Terminal::Paint(Style style, absl::string_view text) const {
  if (!options_.color || style == Style::kPlain) return std::string(text);
  const char* code = "0";
  if (style == Style::kBold) code = "1";
  if (style == Style::kDim) code = "2";
  if (style == Style::kGood) code = "32";
  if (style == Style::kWarning) code = "33";
  if (style == Style::kBad) code = "31";
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

Terminal::Options DetectTerminal() {
  Terminal::Options options;
  const std::string term = Variable("TERM");
  const bool able = isatty(STDERR_FILENO) == 1 && !term.empty() && term != "dumb";
  options.animate = able;
  options.color = able && isatty(STDOUT_FILENO) == 1 && Variable("NO_COLOR").empty();
  std::string locale = Variable("LC_ALL");
  if (locale.empty()) locale = Variable("LC_CTYPE");
  if (locale.empty()) locale = Variable("LANG");
  locale = absl::AsciiStrToLower(locale);
  options.unicode = absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  winsize size = {};
  if (able && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = std::clamp<int>(size.ws_col, 40, 200);
  }
  return options;
}

}  // namespace strata::client
