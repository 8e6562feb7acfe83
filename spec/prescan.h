// What can be refused about a YAML text before a YAML parser sees it, so that the parser's stack
// and memory stay bounded and its positions mean something.
#ifndef STRATA_SPEC_PRESCAN_H_
#define STRATA_SPEC_PRESCAN_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "spec/problems.h"

namespace strata::spec {

inline constexpr size_t kMostBytes = size_t{1} << 20;
inline constexpr int kDeepestNesting = 32;

// What kind of file is read: for its limits and its messages.
struct FileKind {
  const char* name = "job";  // "a job file", "job files"
  size_t most_bytes = kMostBytes;
  const char* when_too_large = "name the job file, not the data";
};

// Size, UTF-8, NUL and other control characters, tabs as indentation, nesting. Adds at most one
// problem and returns whether the text may be parsed. The nesting found is exact for plain job
// files; the YAML parser's own limit (yaml-cpp: 500) catches texts that hide it in unusual quoting.
bool Prescan(absl::string_view text, Problems& problems, const FileKind& kind = {});

// Whether all of `text` is well-formed UTF-8.
bool IsUtf8(absl::string_view text);

// Where byte `offset` of `text` stands.
Position PositionOf(absl::string_view text, size_t offset);

}  // namespace strata::spec

#endif  // STRATA_SPEC_PRESCAN_H_
