#include "simulation/sim_controller.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/check.h"
#include "controller/logic/restored_store.h"

namespace strata::simulation {
namespace {

constexpr double kTickSeconds = 0.25;
constexpr double kWall = 1.7e9;

template <typename T>
void Append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

SimController::SimController(simulator::Events& events, common::Random& random, Oracle& oracle,
                             PlantedBug bug, bool trace, std::string* story)
    : events_(events),
      random_(random),
      oracle_(oracle),
      bug_(bug),
      trace_(trace || story != nullptr),
      story_(story) {}

void SimController::Tell(const std::string& what) const {
  if (story_ == nullptr) {
    std::printf("%9.3f  %s\n", events_.Now(), what.c_str());
  } else {
    absl::StrAppendFormat(story_, "%.17g  %s\n", events_.Now(), what);
  }
}

void SimController::Tell(const std::string& what, const google::protobuf::Message& message) const {
  std::string text = message.ShortDebugString();
  if (text.size() > 220) text = text.substr(0, 220) + "…";
  Tell(what + ": " + text);
}

void SimController::Start() {
  if (trace_) Tell("the controller starts");
  ++life_;
  if (put_back_) UseBackup();
  core_ =
      std::make_unique<controller::Core>(&events_, topology::Description(), entropy_, protocol_);
  std::vector<controller::Write> records;
  for (const auto& [key, write] : store_) records.push_back(write);
  Run([this, &records](Batch& batch) {
    absl::StatusOr<controller::Effects> loaded = core_->Load(records, WallSeconds());
    STRATA_CHECK(loaded.ok());  // what it wrote itself
    batch.effects = *std::move(loaded);
  });
  oracle_.OnLoaded(*core_);
  Tick();
}

void SimController::Kill(double down_seconds) {
  if (core_ == nullptr) return;
  if (trace_) Tell("the controller dies");
  ++life_;
  core_.reset();
  pending_ = {};
  put_off_.clear();
  committing_ = false;
  paused_until_ = 0;
  for (auto& [session, link] : sessions_) {
    link->up.Close();
    link->Break();
  }
  sessions_.clear();
  events_.After(down_seconds, [this] {
    if (core_ == nullptr) Start();
  });
}

void SimController::Upgrade(const v1::ProtocolRange& protocol, double down_seconds) {
  protocol_ = protocol;
  Kill(down_seconds);
}

void SimController::SlowDown(double sync_seconds, double for_seconds) {
  const double usual = sync_seconds_;
  sync_seconds_ = sync_seconds;
  events_.After(for_seconds, [this, usual] { sync_seconds_ = usual; });
}

void SimController::Pause(double seconds) {
  if (core_ == nullptr) return;
  paused_until_ = std::max(paused_until_, events_.Now() + seconds);
  events_.At(paused_until_, [this, life = life_] {
    if (life == life_) Drain();
  });
}

void SimController::Run(std::function<void(Batch&)> input) {
  if (core_ == nullptr) return;
  put_off_.push_back(std::move(input));
  Drain();
}

void SimController::Drain() {
  while (!put_off_.empty() && events_.Now() >= paused_until_) {
    const std::function<void(Batch&)> input = std::move(put_off_.front());
    put_off_.pop_front();
    Handle(input);
  }
}

void SimController::Handle(const std::function<void(Batch&)>& input) {
  Batch batch;
  input(batch);
  if (batch.effects.writes.empty() && !committing_) return Release(batch);
  if (bug_ == PlantedBug::kSpeaksBeforeDurable) {
    Release(batch);
    batch.effects.messages.clear();
    batch.replies.clear();
  }
  Append(pending_.effects.writes, batch.effects.writes);
  Append(pending_.effects.messages, batch.effects.messages);
  Append(pending_.effects.changed, batch.effects.changed);
  Append(pending_.effects.deleted, batch.effects.deleted);
  Append(pending_.effects.refused, batch.effects.refused);
  Append(pending_.replies, batch.replies);
  if (!committing_) Commit();
}

double SimController::WallSeconds() const { return kWall + events_.Now() + wall_offset_; }

void SimController::Tick() {
  Run([this, due = events_.Now()](Batch& batch) {
    const double late = events_.Now() - std::max(due, ticked_at_);
    ticked_at_ = events_.Now();
    core_->OnTick(WallSeconds(), batch.effects, std::max(0.0, late));
  });
  events_.After(kTickSeconds, [this, life = life_] {
    if (life == life_) Tick();
  });
}

void SimController::Commit() {
  committing_ = true;
  auto batch = std::make_shared<Batch>(std::move(pending_));
  pending_ = {};
  const int commit = ++commits_;
  events_.After(random_.Between(0.3, 2) * sync_seconds_, [this, life = life_, commit, batch] {
    if (life != life_) return;  // died meanwhile: nothing of it has happened
    const auto death = deaths_.find(commit);
    const double down = random_.Between(0.05, 3);
    if (death != deaths_.end() && !death->second) return Kill(down);
    Apply(*batch);
    if (death != deaths_.end()) return Kill(down);
    Release(*batch);
    committing_ = false;
    if (!pending_.empty()) Commit();
  });
}

void SimController::Apply(const Batch& batch) {
  const bool torn = bug_ == PlantedBug::kLosesAWrite && random_.Chance(0.2);
  for (const controller::Write& write : batch.effects.writes) {
    if (torn && write.table == "jobs") continue;
    if (write.key == "controller_term") {
      oracle_.OnTerm(std::stoll(write.value));
      if (bug_ == PlantedBug::kForgetsItsTerm) continue;
    }
    if (write.erase && bug_ == PlantedBug::kKeepsErasedRecords) continue;
    if (write.erase) {
      store_.erase({write.table, write.key});
    } else {
      store_[{write.table, write.key}] = write;
    }
  }
  for (const v1::JobRecord& job : batch.effects.changed) {
    if (trace_) Tell(job.name() + " " + v1::Job::State_Name(job.state()) + ": " + job.reason());
  }
  oracle_.OnDurable(batch.effects.changed, events_.Now(), batch.effects.deleted);
}

void SimController::Release(const Batch& batch) {
  for (const controller::Outgoing& out : batch.effects.messages) {
    oracle_.OnWords(events_.Now());
    if (out.message->has_commit()) oracle_.OnCommitAnswer(out.message->commit());
    if (trace_) Tell("to " + out.node, *out.message);
    const auto link = sessions_.find(out.session);
    if (link != sessions_.end()) link->second->SendDown(*out.message);
  }
  for (const controller::Effects::Refused& refused : batch.effects.refused) {
    if (trace_)
      Tell("refused " + std::to_string(refused.session) + ": " + refused.status.ToString());
    const auto link = sessions_.find(refused.session);
    if (link == sessions_.end()) continue;
    link->second->up.Close();
    link->second->Break();
    sessions_.erase(link);
  }
  for (const auto& reply : batch.replies) reply();
}

void SimController::Accept(const std::shared_ptr<Link>& link) {
  const uint64_t session = ++last_session_;
  sessions_[session] = link;
  link->up.on_message = [this, session, life = life_](v1::AgentMessage message) {
    if (life != life_) return;
    if (bug_ == PlantedBug::kTakesAllForItsOwn && message.has_register_()) {
      *message.mutable_register_()->mutable_protocol() = protocol_;
    }
    Run([this, session, message](Batch& batch) {
      if (trace_ && !message.has_heartbeat()) Tell("on " + std::to_string(session), message);
      if (sessions_.contains(session)) core_->OnAgent(session, message, batch.effects);
    });
  };
  link->up.on_end = [this, session, life = life_] {
    if (life != life_) return;
    Run([this, session](Batch& batch) {
      if (sessions_.erase(session) > 0) core_->OnSessionEnd(session, batch.effects);
    });
  };
}

void SimController::BackUp() {
  backup_ = store_;
  oracle_.OnBackup();
}

bool SimController::PutBack(double down_seconds) {
  if (!backup_.has_value()) return false;
  put_back_ = true;
  Kill(down_seconds);
  return true;
}

// As controller/main does before its first start with what was put back.
void SimController::UseBackup() {
  if (trace_) Tell("the store is put back as it was");
  store_ = *std::exchange(backup_, std::nullopt);
  put_back_ = false;
  std::vector<controller::Write> records;
  for (const auto& [key, write] : store_) records.push_back(write);
  const auto changes = controller::AfterRestore(records, entropy_);
  STRATA_CHECK(changes.ok());  // what it wrote itself
  if (bug_ == PlantedBug::kStartsBackupAsItIs) return oracle_.OnPutBack(store_, events_.Now());
  for (const controller::Write& write : *changes) store_[{write.table, write.key}] = write;
  oracle_.OnPutBack(store_, events_.Now());
}

}  // namespace strata::simulation
