#include "controller/logic/restored_store.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/logic/cluster_state.h"

namespace strata::controller {
namespace {

constexpr int kMostEarlier = 64;  // incarnations that agents may come from

v1::StoreIdentity NextLife(const v1::StoreIdentity& identity, const common::Entropy& entropy) {
  v1::StoreIdentity next = identity;
  if (next.cluster().empty()) {
    next.set_cluster(common::DrawUuid(entropy));
  } else {
    next.add_earlier(identity.incarnation());
  }
  const int surplus = next.earlier_size() - kMostEarlier;
  if (surplus > 0) next.mutable_earlier()->DeleteSubrange(0, surplus);
  next.set_incarnation(common::DrawUuid(entropy));
  return next;
}

}  // namespace

absl::StatusOr<std::vector<Write>> AfterRestore(const std::vector<Write>& records,
                                                const common::Entropy& entropy) {
  ClusterState state;
  RETURN_IF_ERROR(Restore(state, records));
  state.identity = NextLife(state.identity, entropy);
  state.resource_version += kRestoredVersions;
  Effects effects;
  effects.writes = {{"meta", kIdentityKey, state.identity.SerializeAsString()},
                    {"meta", kTermKey, absl::StrCat(state.term + kRestoredTerms)}};
  for (auto& [name, job] : state.jobs) {
    if (IsTerminal(job.record.state())) continue;
    job.record.set_restored(true);
    job.record.set_least_epoch(std::max(job.record.least_epoch(), job.record.epoch()) +
                               kRestoredEpochs);
    // As it was but for that: no clock tells here for how long its ranks have run.
    job.record.set_resource_version(++state.resource_version);
    effects.writes.push_back({"jobs", name, job.record.SerializeAsString()});
  }
  SaveVersion(state, effects);
  return effects.writes;
}

}  // namespace strata::controller
