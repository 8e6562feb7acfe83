#include "worker/agent/logic/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace strata::worker {
namespace {

absl::Status EarlierTerm(int64_t term, int64_t highest) {
  return absl::FailedPreconditionError(
      absl::StrCat("a controller of term ", term, " spoke after one of term ", highest));
}

}  // namespace

absl::StatusOr<Membership::Verdict> Membership::Judge(const v1::Welcome& welcome, int64_t term,
                                                      bool holds) const {
  Verdict verdict;
  verdict.membership.set_cluster(welcome.cluster());
  verdict.membership.set_store_incarnation(welcome.store_incarnation());
  verdict.membership.set_controller_term(term);
  const auto& earlier = welcome.earlier_incarnations();
  // An agent of before clusters had names takes the first that it hears.
  if (!kept_.cluster().empty() && welcome.cluster() != kept_.cluster()) {
    if (!rejoin_ || holds) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the controller is of cluster '", welcome.cluster(), "', this agent of '",
          kept_.cluster(), "'",
          rejoin_ ? " and holds trainers of it" : " (--rejoin lets an agent without trainers go)"));
    }
    verdict.restored = true;
  } else if (!kept_.store_incarnation().empty() &&
             welcome.store_incarnation() != kept_.store_incarnation()) {
    if (std::find(earlier.begin(), earlier.end(), kept_.store_incarnation()) == earlier.end()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the controller's store ", welcome.store_incarnation(),
                       " was not restored after ", kept_.store_incarnation(),
                       ", which this agent knows: it is an older one, or another copy"));
    }
    verdict.restored = true;
  } else if (term < kept_.controller_term()) {
    return EarlierTerm(term, kept_.controller_term());
  }
  verdict.changed = verdict.membership.SerializeAsString() != kept_.SerializeAsString();
  return verdict;
}

void Membership::Take(const v1::AgentMembership& membership) {
  kept_ = membership;
  welcomed_term_ = membership.controller_term();
}

absl::Status Membership::CheckWord(const v1::ControllerMessage& message) const {
  const int64_t term = message.controller_term();
  if (welcomed_term_ != 0 && term == welcomed_term_) return absl::OkStatus();
  if (term < kept_.controller_term()) return EarlierTerm(term, kept_.controller_term());
  if (message.has_dismiss()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("a controller of term ", term, " spoke without a welcome"));
}

}  // namespace strata::worker
