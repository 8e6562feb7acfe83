#include "simulation/oracle.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace strata::simulation {
namespace {

using controller::HasEpoch;

bool Terminal(v1::Job::State state) {
  return state == v1::Job::SUCCEEDED || state == v1::Job::FAILED || state == v1::Job::CANCELLED;
}

// An epoch goes on where it was only if it was given up for silence, and says so.
bool TakenBack(const v1::JobRecord& before, const v1::JobRecord& after) {
  if (before.events_size() == 0 || after.events_size() == 0) return false;
  const std::string& given_up_for = before.events(before.events_size() - 1).cause();
  return after.events(after.events_size() - 1).cause() == "taken_back" &&
         (given_up_for == "node_lost" || given_up_for == "cluster_restart");
}

std::string CauseOf(const v1::JobRecord& job) {
  return job.events_size() == 0 ? "" : job.events(job.events_size() - 1).cause();
}

// Ranks that the record, which came from a backup, did not know are now the job's.
bool Found(const v1::JobRecord& before, const v1::JobRecord& after) {
  return before.restored() && CauseOf(after) == "restored" &&
         after.events(after.events_size() - 1).type() == "RUNNING" &&
         (after.epoch() > before.epoch() || !HasEpoch(before.state())) && HasEpoch(after.state());
}

// What changes of a job that is over: its labels, and when it goes.
bool IsOverAsBefore(const v1::JobRecord& before, const v1::JobRecord& after) {
  return before.reason() == after.reason() && before.epoch() == after.epoch() &&
         before.checkpoint().SerializeAsString() == after.checkpoint().SerializeAsString();
}

bool Legal(const v1::JobRecord& before, const v1::JobRecord& after) {
  const v1::Job::State to = after.state();
  const v1::Job::State from = before.state();
  if (from == to) return !Terminal(from) || IsOverAsBefore(before, after);
  if (to == v1::Job::FAILED && CauseOf(after) == "time_limit") return !Terminal(from);
  if (Found(before, after)) return !Terminal(from);
  const bool preempted = before.has_preemption() && before.preemption().by().starts_with("jobs/");
  if (to == v1::Job::QUEUED && HasEpoch(from)) return preempted || after.suspended();
  if (to == v1::Job::QUEUED && from == v1::Job::RECOVERING) return after.suspended();
  switch (from) {
    case v1::Job::STATE_UNSPECIFIED:
      return to == v1::Job::QUEUED;
    case v1::Job::QUEUED:
      return to == v1::Job::STARTING || to == v1::Job::CANCELLED;
    case v1::Job::STARTING:
      return to == v1::Job::RUNNING || to == v1::Job::RECOVERING || Terminal(to);
    case v1::Job::RUNNING:
      return to == v1::Job::RECOVERING || Terminal(to);
    case v1::Job::RECOVERING:
      return to == v1::Job::STARTING || to == v1::Job::CANCELLED ||
             (to == v1::Job::RUNNING && TakenBack(before, after));
    default:
      return false;
  }
}

// Somebody wished that the ranks end.
bool IsMeant(const std::string& cause) {
  return cause == "user" || cause == "preempted" || cause == "drained" || cause == "suspended" ||
         cause == "updated" || cause == "time_limit";
}

std::string Name(const v1::JobRecord& job) {
  return absl::StrCat(job.name(), " epoch ", job.epoch(), " (", v1::Job::State_Name(job.state()),
                      ")");
}

}  // namespace

void Oracle::Violate(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void Oracle::OnDurable(const std::vector<v1::JobRecord>& changed, double now,
                       const std::vector<v1::JobRecord>& deleted) {
  now_ = now;
  auto gone = deleted.begin();
  for (const v1::JobRecord& job : changed) {
    for (; gone != deleted.end() && gone->resource_version() < job.resource_version(); ++gone) {
      CheckDeletion(*gone);
    }
    ever_.insert(job.name());
    if (job.resource_version() <= last_version_) {
      Violate(absl::StrCat("resource_version ", job.resource_version(), " after ", last_version_));
    }
    last_version_ = job.resource_version();
    CheckChange(durable_[job.name()], job);
    durable_[job.name()] = job;
    ForgetExcess();
  }
  for (; gone != deleted.end(); ++gone) CheckDeletion(*gone);
}

void Oracle::CheckDeletion(const v1::JobRecord& gone) {
  last_version_ = std::max(last_version_, gone.resource_version());
  const auto found = durable_.find(gone.name());
  if (found == durable_.end()) return Violate(absl::StrCat(gone.name(), " is deleted twice"));
  const v1::JobRecord& job = found->second;
  if (!Terminal(job.state()) || !job.has_expire_time()) {
    Violate(absl::StrCat(Name(job), " is deleted"));
  }
  constexpr double kBackSeconds = 5;  // after what kept its agent from speaking, it comes back
  for (const auto& [place, user] : devices_) {
    const auto harmed = harmed_.find(absl::StrCat("nodes/n", place.first));
    const bool unheard = harmed != harmed_.end() && now_ < harmed->second + kBackSeconds;
    if (user.first != gone.name() || unheard) continue;
    Violate(absl::StrCat(Name(job), " is deleted, and has ranks on node ", place.first));
  }
  acknowledged_.erase(gone.name());
  deletions_[gone.name()] = gone.resource_version();
  durable_.erase(found);
}

void Oracle::OnDrained(const std::string& node, bool drained) {
  if (drained) {
    drained_.insert(node);
  } else {
    drained_.erase(node);
  }
}

// All ranks or none, in the layout asked for or one of fewer data ranks; a tensor group inside one
// domain; nobody on a drained node.
void Oracle::CheckStart(const v1::JobRecord& job) {
  const int64_t tensor = job.spec().parallel().tensor(), data = job.layout().data();
  const int64_t asked = job.spec().parallel().data();
  const bool whole = data >= 1 && data <= asked && asked % data == 0;
  if (!whole || job.placement_size() != tensor * data) {
    return Violate(absl::StrCat(Name(job), " starts with ", job.placement_size(), " ranks"));
  }
  const bool tensor_first = tensor == 1 || job.layout().order(0) == "tensor";
  for (int rank = 0; rank < job.placement_size(); ++rank) {
    const std::string& node = job.placement(rank).node();
    if (drained_.contains(node)) Violate(absl::StrCat(Name(job), " starts on a drained node"));
    const std::string& first = job.placement(static_cast<int>(rank / tensor * tensor)).node();
    const bool same_domain = !domains_[node].empty() && domains_[node] == domains_[first];
    if (!tensor_first || (node != first && !same_domain)) {
      Violate(absl::StrCat(Name(job), ": a tensor group lies in two domains"));
    }
  }
}

void Oracle::CheckKept(const v1::JobRecord& job) {
  constexpr double kKeptSeconds = 28;  // a little less than a lease
  std::set<std::pair<std::string, int>> taken;
  for (const v1::RankPlace& place : job.placement()) taken.insert({place.node(), place.device()});
  for (const auto& [name, other] : durable_) {
    const bool recovers =
        other.state() == v1::Job::RECOVERING && now_ < let_go_[name] + kKeptSeconds;
    if (name == job.name() || (!recovers && !HasEpoch(other.state()))) continue;
    for (const v1::RankPlace& place : other.moving_to().ranks()) {
      if (!taken.contains({place.node(), place.device()})) continue;
      Violate(absl::StrCat(Name(job), " starts on ", place.node(), ", which is kept for ", name));
    }
  }
}

// An epoch is a start of the ranks; one that is found again began earlier.
void Oracle::CheckEpoch(const v1::JobRecord& before, const v1::JobRecord& after, bool starts) {
  const int64_t next = starts ? std::max(before.epoch() + 1, before.least_epoch()) : before.epoch();
  const bool found = Found(before, after);
  if (found ? after.epoch() >= before.epoch() : after.epoch() == next) return;
  Violate(absl::StrCat("the epoch changed without a start of the ranks: ", Name(before), " to ",
                       Name(after)));
}

void Oracle::BeginEpoch(const v1::JobRecord& after) {
  started_[after.name()] = now_;
  kept_.erase(after.name());
  excused_.erase(after.name());
  CheckStart(after);
  CheckKept(after);
  if (given_up_.contains(after.checkpoint().manifest_digest())) {
    Violate(absl::StrCat(Name(after), " begins with a checkpoint that it has given up"));
  }
  beginnings_[{after.name(), after.epoch(), after.uid()}] = after.checkpoint().SerializeAsString();
}

void Oracle::CheckChange(const v1::JobRecord& before, const v1::JobRecord& after) {
  if (!Legal(before, after)) {
    Violate(absl::StrCat(Name(before), " became ", Name(after)));
  }
  const bool found = Found(before, after);
  const bool starts =
      after.state() == v1::Job::STARTING && before.state() != v1::Job::STARTING && !found;
  CheckEpoch(before, after, starts);
  if (starts || after.state() == v1::Job::FAILED) CheckLoss(after);
  if (starts) BeginEpoch(after);
  if (starts || found) CheckQuota(before, after, found);
  if (after.has_moving_to() && HasEpoch(before.state()) && after.state() == v1::Job::RECOVERING) {
    let_go_[after.name()] = now_;
  }
  const int64_t allowed = after.spec().restart().max_without_progress();
  if (after.restarts_without_progress() > allowed && after.state() != v1::Job::FAILED) {
    Violate(absl::StrCat(Name(after), " goes on after ", after.restarts_without_progress(),
                         " ends without progress"));
  }
  if (after.state() == v1::Job::SUCCEEDED && after.checkpoint().step() != after.target_step()) {
    Violate(absl::StrCat(Name(after), " without the checkpoint of its last step"));
  }
  CheckPlaces(after);
  if (starts) places_[after.name()].clear();
  for (const v1::RankPlace& place : after.placement()) places_[after.name()].insert(place.node());
  CheckCheckpoint(before, after);
}

void Oracle::CheckPlaces(const v1::JobRecord& job) {
  std::set<std::pair<std::string, int>> places;
  for (const v1::RankPlace& place : job.placement()) places.insert({place.node(), place.device()});
  if (places.size() == static_cast<size_t>(job.placement_size())) return;
  Violate(absl::StrCat(Name(job), " has two ranks on one device"));
}

void Oracle::CheckCheckpoint(const v1::JobRecord& before, const v1::JobRecord& after) {
  const v1::CommittedCheckpoint &was = before.checkpoint(), &is = after.checkpoint();
  if (was.SerializeAsString() == is.SerializeAsString()) return;
  if (after.damaged_checkpoints_size() > before.damaged_checkpoints_size()) {
    return CheckFallback(before, after);
  }
  // What the restored record does not know was committed in an earlier life of the store.
  const bool adopted = controller::MayHaveUnknownCheckpoints(before) &&
                       !controller::MayHaveUnknownCheckpoints(after);
  if (is.step() <= was.step() || is.epoch() < was.epoch()) {
    Violate(absl::StrCat(after.name(), ": checkpoint ", is.step(), " of epoch ", is.epoch(),
                         " after ", was.step(), " of epoch ", was.epoch()));
  }
  const bool own = is.epoch() == before.epoch() && is.epoch() == after.epoch();
  if (!adopted && (!own || !HasEpoch(before.state()))) {
    Violate(absl::StrCat("epoch ", is.epoch(), " committed to ", Name(before)));
  }
  const auto made = manifests_.find(is.manifest_digest());
  if (made == manifests_.end() || made->second != std::make_pair(is.epoch(), is.step())) {
    Violate(absl::StrCat(after.name(), ": checkpoint ", is.step(), " was never written"));
  }
  recorded_.insert(is.manifest_digest());
  CheckRecords(after.name(), is.step());
  std::deque<v1::CommittedCheckpoint>& history = history_[after.name()];
  std::erase_if(history, [&](const auto& each) {
    const std::string& digest = each.manifest_digest();
    return deleted_.contains(digest) && !forgotten_.contains(digest);
  });
  history.push_back(is);
  constexpr size_t kMostKept = 16;  // in a record, where all are kept on disk
  if (history.size() > kMostKept) history.pop_front();
}

void Oracle::OnHarm(const std::string& what, double until) {
  harmed_[what] = std::max(harmed_[what], until);
}

// What an epoch lost is settled when the next one begins: until then it may be taken back.
void Oracle::CheckLoss(const v1::JobRecord& job) {
  if (job.events_size() == 0 || excused_.contains(job.name())) return;
  const v1::JobEvent& event = job.events(job.events_size() - 1);
  const std::string& cause = event.cause();
  const bool kept = kept_.contains(job.name());
  if (IsMeant(cause) || (event.lost_steps() <= 0 && !kept)) return;
  const double begun = started_[job.name()];
  const auto harmed = [&](const std::string& what) {
    const auto found = harmed_.find(what);
    return found != harmed_.end() && found->second >= begun;
  };
  bool justified = harmed(job.name());
  for (const std::string& node : places_[job.name()]) justified = justified || harmed(node);
  if (justified) return;
  Violate(absl::StrCat(Name(job), kept ? " went on when the store was put back, and" : "", " lost ",
                       event.lost_steps(), " steps without a cause: ", event.reason(), " (", cause,
                       ")"));
}

void Oracle::CheckRecords(const std::string& job, int64_t step) {
  const std::map<int64_t, int64_t>& records = records_[job];
  const auto there = std::distance(records.begin(), records.upper_bound(step));
  if (there == step) return;
  Violate(absl::StrCat(job, ": the checkpoint of step ", step, " counts, and only ", there,
                       " step records are there"));
}

int64_t Oracle::ContinueRecords(const controller::EpochKey& key, int64_t start_step,
                                bool* missing) {
  std::map<int64_t, int64_t>& records = records_[key.job];
  *missing = std::distance(records.begin(), records.upper_bound(start_step)) < start_step;
  int64_t published = start_step;
  ++files_[key.job];
  while (records.contains(published + 1) && records[published + 1] == key.epoch) ++published;
  for (auto after = records.upper_bound(published); after != records.end();) {
    if (after->second > key.epoch) {
      Violate(absl::StrCat(key.job, ": epoch ", key.epoch, " cuts the records of epoch ",
                           after->second));
    }
    after = records.erase(after);
  }
  return published;
}

void Oracle::OnStepRecord(const controller::EpochKey& key, int64_t file, int64_t step) {
  if (file != files_[key.job]) return;
  std::map<int64_t, int64_t>& records = records_[key.job];
  if (!records.empty() && records.rbegin()->first >= step) {
    Violate(absl::StrCat(key.job, ": epoch ", key.epoch, " records step ", step, " again"));
  }
  records[step] = key.epoch;
}

void Oracle::OnPublish(const std::string& job, const std::string& digest) {
  if (recorded_.contains(digest)) return;
  Violate(absl::StrCat(job, ": the checkpoint ", digest, " got its name and is not recorded"));
}

void Oracle::OnDeleted(const std::string& job, const std::string& digest) {
  deleted_.insert(digest);
  std::erase_if(history_[job],
                [&](const auto& checkpoint) { return checkpoint.manifest_digest() == digest; });
}

// A checkpoint is given up when it is damaged and for nothing else, at the job's cost of nothing
// but the steps since the one before, which takes its place.
void Oracle::CheckFallback(const v1::JobRecord& before, const v1::JobRecord& after) {
  const v1::CommittedCheckpoint &was = before.checkpoint(), &is = after.checkpoint();
  std::deque<v1::CommittedCheckpoint>& history = history_[after.name()];
  const std::string& digest = was.manifest_digest();
  if (history.empty() || history.back().manifest_digest() != digest) {
    return Violate(absl::StrCat(after.name(), " gives up a checkpoint that it does not have"));
  }
  history.pop_back();
  given_up_.insert(digest);
  if (!damaged_.contains(digest) && !deleted_.contains(digest)) {
    Violate(absl::StrCat(digest, " is given up, and is whole"));
  }
  // Of one that a store put back knows again either takes its place or is passed over.
  while (!history.empty() && history.back().manifest_digest() != is.manifest_digest() &&
         forgotten_.contains(history.back().manifest_digest())) {
    history.pop_back();
  }
  const std::string newest = history.empty() ? "" : history.back().manifest_digest();
  if (is.manifest_digest() != newest) {
    Violate(absl::StrCat(after.name(), " goes back to '", is.manifest_digest(), "' instead of '",
                         newest, "'"));
  }
  const bool starts = before.state() == v1::Job::STARTING || before.state() == v1::Job::RECOVERING;
  const bool may_count = bad_sectors_.contains(digest);
  // Its ranks, found after a restore, did so before.
  const bool done_before = before.restored() && before.epoch() > was.epoch() &&
                           before.epoch() == after.epoch() && before.state() == after.state();
  const bool in_turn = starts && (after.state() == v1::Job::RECOVERING || may_count);
  if (!in_turn && !done_before) {
    Violate(absl::StrCat(Name(before), " gives up a checkpoint and is ", Name(after)));
  }
  if (!may_count && after.restarts_without_progress() > before.restarts_without_progress()) {
    Violate(absl::StrCat(Name(after), ": damage counts against its budget"));
  }
}

void Oracle::OnLoaded(const controller::Core& core) {
  if (core.controller_term() <= last_term_) Violate("a controller begins a term that was begun");
  if (core.resource_version() < last_version_) Violate("the version counter went back");
  for (const v1::Node& node : core.Nodes()) {
    for (int i = 0; i < node.failure_times_size(); ++i) {
      if (ever_.contains(node.failure_jobs(i))) continue;
      Violate(absl::StrCat(node.name(), " was to blame, and for which job is lost"));
    }
  }
  for (const auto& [name, job] : durable_) {
    const v1::JobRecord* found = core.FindJob(name);
    if (found == nullptr || found->SerializeAsString() != job.SerializeAsString()) {
      Violate(absl::StrCat(name, " is not what was made durable"));
    }
  }
  for (const v1::JobRecord* job : core.Jobs()) {
    if (!durable_.contains(job->name()))
      Violate(absl::StrCat(job->name(), " was deleted, and is back"));
  }
}

void Oracle::OnAcknowledged(const v1::JobRecord& job) {
  const auto found = durable_.find(job.name());
  const auto deletion = deletions_.find(job.name());
  const bool gone = deletion != deletions_.end() && deletion->second > job.resource_version();
  if (gone) return;  // in the same transaction
  if (found == durable_.end() || found->second.request_id() != job.request_id()) {
    return Violate(absl::StrCat(job.name(), " was acknowledged and is not durable"));
  }
  acknowledged_[job.name()] = job.request_id();
}

void Oracle::OnWords(double now) {
  constexpr int kMost = 2000;
  const auto second = static_cast<int64_t>(now);
  words_ = second == second_ ? words_ + 1 : 1;
  second_ = second;
  if (words_ > kMost) Violate("the controller says too much");
}

void Oracle::OnManifest(int64_t epoch, int64_t step, const std::string& digest) {
  manifests_[digest] = {epoch, step};
}

void Oracle::OnCommitAnswer(const v1::CommitAnswer& answer) {
  if (!answer.accepted()) return;
  const auto job = durable_.find(answer.epoch().job());
  if (job == durable_.end()) return Violate("the commit of a job that is not there is confirmed");
  const v1::CommittedCheckpoint& recorded = job->second.checkpoint();
  if (recorded.step() < answer.step() || recorded.epoch() < answer.epoch().epoch()) {
    Violate(absl::StrCat("the commit of step ", answer.step(), " of ", answer.epoch().job(),
                         " was confirmed before it was durable"));
  }
}

void Oracle::OnBeginning(const controller::EpochKey& key, const v1::PrepareEpoch& prepare) {
  const auto begun = beginnings_.find(key);
  if (begun == beginnings_.end()) {
    return Violate(absl::StrCat(key.job, " epoch ", key.epoch, " runs and is not recorded"));
  }
  if (begun->second != prepare.checkpoint().SerializeAsString()) {
    Violate(absl::StrCat("ranks of ", key.job, " epoch ", key.epoch,
                         " begin elsewhere than the others: at step ",
                         prepare.checkpoint().step()));
  }
}

void Oracle::OnConnected(const controller::EpochKey& key, int64_t step, int64_t newest) {
  const auto job = durable_.find(key.job);
  const bool present = job != durable_.end() && job->second.epoch() == key.epoch;
  if (!present || step >= newest) return;
  Violate(absl::StrCat(key.job, " epoch ", key.epoch, " begins after step ", step,
                       " when there is a checkpoint of step ", newest));
}

void Oracle::OnTrainer(int node, int device, const std::string& job, int64_t epoch) {
  const auto [place, free] = devices_.try_emplace({node, device}, job, epoch);
  if (!free) {
    Violate(absl::StrCat("node ", node, " device ", device, " is used by ", place->second.first,
                         " epoch ", place->second.second, " and by ", job, " epoch ", epoch));
  }
}

void Oracle::OnTrainerGone(int node, int device, const std::string& job, int64_t epoch) {
  const auto place = devices_.find({node, device});
  if (place != devices_.end() && place->second == std::make_pair(job, epoch)) devices_.erase(place);
}

bool Oracle::AllEnded() const {
  for (const auto& [name, job] : durable_) {
    if (!Terminal(job.state())) return false;
  }
  return true;
}

std::string Oracle::HeldNode(const controller::Core& core) {
  for (const v1::Node& node : core.Nodes()) {
    if (node.state() == v1::Node::READY && node.jobs_size() > 0) return node.name();
  }
  return "";
}

void Oracle::AtEnd(const controller::Core& core, bool harmless) {
  for (const auto& [name, request] : acknowledged_) {
    const v1::JobRecord* job = core.FindJob(name);
    if (job == nullptr || job->request_id() != request) Violate(absl::StrCat(name, " is lost"));
  }
  for (const auto& [name, job] : durable_) {
    if (!Terminal(job.state())) {
      Violate(absl::StrCat(Name(job), " has not ended: ", job.reason()));
    }
    for (const v1::JobEvent& event : job.events()) {
      const bool meant = event.cause().empty() || IsMeant(event.cause()) ||
                         event.cause() == "restored" || ever_excused_.contains(name);
      if (harmless && !meant) Violate(absl::StrCat(Name(job), " was disturbed: ", event.reason()));
    }
    const auto& given_up = job.damaged_checkpoints();
    const bool by_damage =
        job.state() == v1::Job::FAILED && !given_up.empty() &&
        !bad_sectors_.contains(given_up[given_up.size() - 1].manifest_digest()) &&
        job.events(job.events_size() - 1).cause() == "checkpoint_damaged";
    if (by_damage) Violate(absl::StrCat(Name(job), " fails for damage: ", job.reason()));
    if (harmless && job.state() == v1::Job::FAILED && CauseOf(job) != "time_limit")
      Violate(absl::StrCat(Name(job), ": ", job.reason()));
  }
  const std::string held = HeldNode(core);
  if (!held.empty()) Violate(absl::StrCat(held, " counts as held when all is over"));
  if (!devices_.empty()) {
    const auto& [place, user] = *devices_.begin();
    Violate(absl::StrCat("an orphan of ", user.first, " epoch ", user.second, " on node ",
                         place.first));
  }
}

}  // namespace strata::simulation
