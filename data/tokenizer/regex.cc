#include "data/tokenizer/regex.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "data/tokenizer/regex_syntax.h"
#include "data/tokenizer/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace strata::data {
namespace {

// Bounds for one match, far beyond what splitting text takes: steps, and bytes of backtracking.
constexpr uint32_t kMostSteps = 10'000'000;
constexpr size_t kMostStack = size_t{8} << 20;
constexpr size_t kFirstStack = size_t{32} << 10;
constexpr uint32_t kMostHeap = 32 << 10;  // KiB, where there is no compiler for this processor

struct MatchDataDeleter {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct StackDeleter {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

// What a thread matches with.
struct MatchState {
  std::unique_ptr<pcre2_match_data, MatchDataDeleter> data;
  std::unique_ptr<pcre2_match_context, ContextDeleter> context;
  std::unique_ptr<pcre2_jit_stack, StackDeleter> stack;

  MatchState()
      : data(pcre2_match_data_create(1, nullptr)),
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kFirstStack, kMostStack, nullptr)) {
    pcre2_set_match_limit(context.get(), kMostSteps);
    pcre2_set_heap_limit(context.get(), kMostHeap);
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

std::string ErrorText(int error) {
  PCRE2_UCHAR text[200];
  if (pcre2_get_error_message(error, text, sizeof(text)) < 0) return absl::StrCat("error ", error);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(std::string_view pattern) {
  ASSIGN_OR_RETURN(const std::string translated, TranslateRegex(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto code = std::make_unique<Code>();
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_AUTO_CAPTURE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr);
  if (code->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("regular expression: ", ErrorText(error)));
  }
  // Without a compiler for this processor, or the right to use it, the same matches are found
  // slower.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  return std::shared_ptr<const Regex>(new Regex(std::move(code)));
}

absl::Status Regex::FindAll(std::string_view text,
                            absl::FunctionRef<void(size_t begin, size_t end)> match) const {
  thread_local const MatchState state;
  constexpr size_t kNowhere = static_cast<size_t>(-1);
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t from = 0, previous_end = kNowhere;
  while (from <= text.size()) {
    const int found = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK,
                                  state.data.get(), state.context.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("a regular expression of the tokenizer cannot be matched at byte ", from,
                       " of a text: ", ErrorText(found)));
    }
    const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(state.data.get());
    if (ends[0] == ends[1] && ends[1] == previous_end) {
      from =
          ends[1] < text.size() ? ends[1] + DecodeAt(text.data() + ends[1]).size : text.size() + 1;
      continue;
    }
    match(ends[0], ends[1]);
    from = previous_end = ends[1];
  }
  return absl::OkStatus();
}

}  // namespace strata::data
