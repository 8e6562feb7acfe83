// How a process starts, speaks, sleeps and goes. What a rank trains and saves: sim_rank.cc.
#include "simulation/sim_process.h"

#include <algorithm>
#include <utility>

#include "simulation/cluster.h"
#include "simulation/sim_node.h"
#include "simulation/sim_trainer.h"

namespace strata::simulation {

using worker::Phase;

SimProcess::SimProcess(Cluster& cluster, SimNode& node, const Identity& identity)
    : cluster_(cluster), node_(node), identity_(identity), phase_begin_(cluster.events.Now()) {}

// ---- life

void SimProcess::Do(std::function<void()> what) {
  if (!alive_) return;
  if (Still()) {
    put_off_.push_back(std::move(what));
  } else {
    what();
  }
}

void SimProcess::After(double delay, std::function<void()> what) {
  cluster_.events.After(delay,
                        [self = shared_from_this(), what = std::move(what)] { self->Do(what); });
}

void SimProcess::Freeze(bool frozen) {
  if (frozen_ == frozen) return;
  frozen_ = frozen;
  if (!Still())
    cluster_.events.After(cluster_.random.Between(0, 0.3),
                          [self = shared_from_this()] { self->Awake(); });
}

void SimProcess::Stop() { stopped_ = true; }

// What came meanwhile is read before anything is judged.
void SimProcess::Awake() {
  while (alive_ && !Still() && !inbox_.empty()) {
    const v1::TrainerCommand command = std::move(inbox_.front());
    inbox_.pop_front();
    Obey(command);
  }
  while (alive_ && !Still() && !put_off_.empty()) {
    const std::function<void()> what = std::move(put_off_.front());
    put_off_.pop_front();
    what();
  }
  if (alive_ && !plans()) cluster_.TryStep(identity_.key);
}

void SimProcess::SetPhase(Phase phase) {
  phase_ = phase;
  phase_begin_ = cluster_.events.Now();
  ++own_ticks_;
}

void SimProcess::Kill() {
  const double slow = cluster_.random.Chance(0.05) ? 1.5 : 0.1;
  cluster_.events.After(cluster_.random.Between(0.001, slow),
                        [self = shared_from_this()] { self->Exit(/*by_signal=*/true); });
}

void SimProcess::Exit(bool by_signal) {
  if (!alive_) return;
  alive_ = false;
  by_signal_ = by_signal;
  const bool abrupt = !last_word_.has_value() || last_word_->outcome() == v1::Finished::FAILED;
  node_.OnExit(*this);
  if (!plans()) cluster_.OnExit(*this, abrupt);
  // What it said is heard before its end.
  const double due = conversation_ == nullptr ? 0 : conversation_->due_up;
  conversation_.reset();
  cluster_.events.At(due, [self = shared_from_this()] {
    self->node_.Agent([self] {
      if (self->handle_ != nullptr) self->handle_->Gone();
    });
  });
}

// ---- its agent

void SimProcess::Connect(const std::shared_ptr<Conversation>& conversation, bool again) {
  conversation_ = conversation;
  if (!again) return;
  for (const v1::TrainerEvent& event : remembered_) Transmit(event);
  for (const v1::TrainerEvent& event : events_) Transmit(event);
}

void SimProcess::Receive(const std::shared_ptr<Conversation>& conversation,
                         const v1::TrainerCommand& command) {
  if (!alive_ || conversation != conversation_) return;
  if (Still()) {
    inbox_.push_back(command);
  } else {
    Obey(command);
  }
}

void SimProcess::OnSocketEnd(const std::shared_ptr<Conversation>& conversation) {
  Do([this, conversation] {
    if (conversation != conversation_) return;
    conversation_.reset();
    if (!task_.controlled().has_lease()) return Exit(/*by_signal=*/false);
    SeekAgent();
  });
}

void SimProcess::SeekAgent() {
  if (seeking_ || conversation_ != nullptr) return;
  seeking_ = true;
  After(cluster_.random.Between(0.1, 0.4), [this] {
    seeking_ = false;
    node_.OnHello(shared_from_this());
    SeekAgent();
  });
}

void SimProcess::CheckLease() {
  if (checking_lease_ || !task_.controlled().has_lease()) return;
  checking_lease_ = true;
  const double over = heard_ + task_.controlled().lease().seconds() - cluster_.events.Now();
  After(std::max(0.1, over + 0.01), [this] {
    checking_lease_ = false;
    const bool late = cluster_.events.Now() - heard_ > task_.controlled().lease().seconds();
    if (late) return Exit(/*by_signal=*/false);
    CheckLease();
  });
}

void SimProcess::Send(v1::TrainerEvent event) {
  event.set_sequence(++sequence_);
  events_.push_back(event);
  Transmit(event);
}

void SimProcess::Transmit(const v1::TrainerEvent& event) {
  if (conversation_ == nullptr) return;
  const double latency = cluster_.random.Between(1e-5, 1e-3);
  conversation_->due_up = std::max(conversation_->due_up, cluster_.events.Now() + latency);
  cluster_.events.At(conversation_->due_up,
                     [this, self = shared_from_this(), conversation = conversation_, event] {
                       node_.Agent([conversation, event] {
                         if (conversation->agent != nullptr) conversation->agent->Hear(event);
                       });
                     });
}

// As worker/trainer/outbox.
void SimProcess::Remember(const v1::TrainerEvent& event) {
  const auto forget = [this](v1::TrainerEvent::EventCase kind) {
    std::erase_if(remembered_, [kind](const auto& each) { return each.event_case() == kind; });
  };
  switch (event.event_case()) {
    case v1::TrainerEvent::kRunning:
      forget(v1::TrainerEvent::kPrepared);
      break;
    case v1::TrainerEvent::kWritten: {
      const auto written = [](const auto& each) { return each.has_written(); };
      if (static_cast<size_t>(std::count_if(remembered_.begin(), remembered_.end(), written)) <
          kWrittenKept) {
        break;
      }
      remembered_.erase(std::find_if(remembered_.begin(), remembered_.end(), written));
      break;
    }
    case v1::TrainerEvent::kRecord:
      if (event.record().step() <= answered_) return;
      break;
    case v1::TrainerEvent::kPrepared:
      break;
    default:
      return;
  }
  if (cluster_.options.bug == PlantedBug::kRepeatsNothing) return;
  remembered_.push_back(event);
}

void SimProcess::Acknowledge(uint64_t sequence) {
  while (!events_.empty() && events_.front().sequence() <= sequence) {
    Remember(events_.front());
    events_.pop_front();
  }
  if (last_word_.has_value() && events_.empty()) {
    After(cluster_.random.Between(0, 0.2), [this] { Exit(/*by_signal=*/false); });
  }
}

// Without a lease nobody acknowledges.
void SimProcess::End(v1::Finished::Outcome outcome, bool echo, const std::string& message,
                     const v1::CheckpointProblem* problem) {
  if (last_word_.has_value()) return;
  SetPhase(Phase::kEnding);
  v1::Ended& ended = last_word_.emplace();
  ended.set_outcome(outcome);
  ended.set_exit_code(outcome == v1::Finished::FAILED ? 1 : 0);
  ended.set_message(message);
  ended.set_echo(echo);
  if (problem != nullptr) *ended.mutable_checkpoint_problem() = *problem;
  v1::TrainerEvent event;
  *event.mutable_ended() = ended;
  Send(event);
  if (!plans() && outcome == v1::Finished::FAILED) cluster_.LosePeers(*this);
  if (!task_.controlled().has_lease()) {
    After(cluster_.random.Between(0, 0.1), [this] { Exit(/*by_signal=*/false); });
  }
}

// ---- what it is told

void SimProcess::Obey(const v1::TrainerCommand& command) {
  heard_ = cluster_.events.Now();
  switch (command.command_case()) {
    case v1::TrainerCommand::kTask:
      return OnTask(command.task());
    case v1::TrainerCommand::kStart:
      if (started_) return;
      started_ = true;
      SetPhase(Phase::kConnecting);
      return cluster_.OnStarted(identity_.key);
    case v1::TrainerCommand::kStop:
      return StopAsked();
    case v1::TrainerCommand::kStopAfter:
      if (last_step_ >= 0) return;
      last_step_ = command.stop_after().step();
      asked_for_step_ = false;
      return ObeyLastStep();
    case v1::TrainerCommand::kCommit:
      if (announced_.contains(command.commit().step())) complete_.insert(command.commit().step());
      return AdvanceCommits();
    case v1::TrainerCommand::kAcknowledge:
      return Acknowledge(command.acknowledge().sequence());
    case v1::TrainerCommand::kAnswer:
      return OnAnswer(command.answer());
    case v1::TrainerCommand::kEnd:
      // What it was at is cancelled; it says so or is gone first.
      return After(cluster_.random.Between(0.001, 1), [this] {
        if (!last_word_.has_value() && !plans() && cluster_.random.Chance(0.5)) {
          End(v1::Finished::FAILED, /*echo=*/true, "cancelled");
        }
        After(0.01, [this] { Exit(/*by_signal=*/false); });
      });
    default:
      return;
  }
}

void SimProcess::OnTask(const v1::TrainerTask& task) {
  task_ = task;
  CheckLease();
  const double slow = cluster_.random.Chance(0.1) ? 5 : 0.3;
  const double stalled = task.plan_only() ? cluster_.StallOf(identity_.key.job) : 0;
  After(stalled + cluster_.random.Between(0.01, slow), [this] {
    if (task_.plan_only()) return Plan();
    Prepare();
  });
}

}  // namespace strata::simulation
