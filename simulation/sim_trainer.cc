#include "simulation/sim_trainer.h"

#include <algorithm>
#include <utility>

#include "simulation/cluster.h"

namespace strata::simulation {

SimTrainer::SimTrainer(Cluster& cluster, std::shared_ptr<SimProcess> process, bool child)
    : cluster_(cluster), process_(std::move(process)), child_(child) {
  reaped_ = !process_->alive();
  if (reaped_) return;
  process_->SetHandle(this);
  if (!child_) return;
  Attach(std::make_shared<Conversation>());
  process_->Connect(conversation_, /*again=*/false);
}

SimTrainer::~SimTrainer() {
  if (!reaped_) process_->Kill();
  process_->SetHandle(nullptr);
  if (conversation_ == nullptr) return;
  Hang();
  conversation_->agent = nullptr;
}

void SimTrainer::Attach(std::shared_ptr<Conversation> conversation) {
  Detach();
  conversation_ = std::move(conversation);
  conversation_->agent = this;
}

void SimTrainer::Detach() {
  if (conversation_ != nullptr) conversation_->agent = nullptr;
  conversation_.reset();
}

void SimTrainer::Send(const v1::TrainerCommand& command) {
  const PlantedBug bug = cluster_.options.bug;
  if (conversation_ == nullptr) return;
  if (command.has_end() && bug == PlantedBug::kIgnoresStop) return;
  if (command.has_acknowledge() && bug == PlantedBug::kGivesNoSignsOfLife) return;
  const double latency = cluster_.random.Between(1e-5, 1e-3);
  conversation_->due_down = std::max(conversation_->due_down, cluster_.events.Now() + latency);
  cluster_.events.At(conversation_->due_down,
                     [process = process_, conversation = conversation_, command] {
                       process->Receive(conversation, command);
                     });
}

void SimTrainer::Hang() {
  if (conversation_ == nullptr) return;
  cluster_.events.At(conversation_->due_down, [process = process_, conversation = conversation_] {
    process->OnSocketEnd(conversation);
  });
}

void SimTrainer::Kill() {
  if (reaped_ || killed_ || cluster_.options.bug == PlantedBug::kIgnoresStop) return;
  killed_ = true;
  if (cluster_.options.bug != PlantedBug::kConfirmsTooEarly) return process_->Kill();
  cluster_.events.After(cluster_.random.Between(0.5, 3),
                        [process = process_] { process->Exit(/*by_signal=*/true); });
  reaped_ = true;  // so it says
}

std::string SimTrainer::DescribeEnd() const {
  return process_->by_signal() ? "was killed by signal 9 (Killed)" : "exited with code 1";
}

const worker::ProgressView* SimTrainer::progress() {
  return cluster_.options.bug == PlantedBug::kSeesNoHangs ? nullptr : process_.get();
}

bool SimTrainer::progress_unknown() const {
  return cluster_.options.bug == PlantedBug::kSeesNoHangs;
}

// Of its own child an agent hears it.
std::optional<v1::Ended> SimTrainer::Outcome() {
  return child_ ? std::nullopt : process_->last_word();
}

void SimTrainer::Hear(const v1::TrainerEvent& event) {
  if (listener() != nullptr) listener()->OnEvent(place(), event);
}

void SimTrainer::Gone() {
  if (reaped_) return;
  reaped_ = true;
  Detach();
  if (listener() != nullptr) listener()->OnGone(place());
}

}  // namespace strata::simulation
