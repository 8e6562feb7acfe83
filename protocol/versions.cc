#include "protocol/versions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::protocol {

v1::ProtocolRange OwnRange() {
  v1::ProtocolRange range;
  range.set_least(kLeast);
  range.set_greatest(kGreatest);
  return range;
}

absl::StatusOr<int> CommonVersion(const v1::ProtocolRange& theirs, const std::string& peer,
                                  const v1::ProtocolRange& ours) {
  const int least = std::max(1, theirs.least()), greatest = std::max(1, theirs.greatest());
  const int common = std::min(greatest, ours.greatest());
  if (common >= std::max(least, ours.least())) return common;
  const bool newer = least > ours.greatest();
  return absl::FailedPreconditionError(absl::StrCat(
      peer, " speaks protocol ", least, " to ", greatest, ", this program ", ours.least(), " to ",
      ours.greatest(), ": upgrade ", newer ? "this program" : peer,
      " (of two releases that follow each other any two programs understand each "
      "other; skip none)"));
}

}  // namespace strata::protocol
