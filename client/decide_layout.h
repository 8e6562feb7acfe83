// Job files that say `auto`, decided with what this machine was measured to take.
#ifndef STRATA_CLIENT_DECIDE_LAYOUT_H_
#define STRATA_CLIENT_DECIDE_LAYOUT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/auto_layout.h"
#include "spec/job_file.h"

namespace strata::client {

struct DecidedLayout {
  std::vector<std::string> settings;  // to be added to those that were typed
  std::vector<std::string> notices;   // what was chosen and why, one line each
};

struct RankedLayouts {
  std::vector<Candidate> candidates;  // fastest first
  std::string notice;                 // why the times are not this machine's; empty: they are
};

// `file`: with its autos, without problems. `read`: see AutoRequest. `profile`: --profile, or
// empty. Errors: RankLayouts'; InvalidArgument: a profile that is named cannot be read.
using ReadWith = std::function<absl::StatusOr<v1::JobSpec>(const std::vector<std::string>&)>;
absl::StatusOr<RankedLayouts> RankHere(const spec::JobFile& file, const ReadWith& read,
                                       const std::string& profile, int64_t memory_bytes);
// The first of them.
absl::StatusOr<DecidedLayout> DecideLayout(const spec::JobFile& file, const ReadWith& read,
                                           const std::string& profile, int64_t memory_bytes);

}  // namespace strata::client

#endif  // STRATA_CLIENT_DECIDE_LAYOUT_H_
