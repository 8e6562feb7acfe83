#include "controller/service/reactor/reactor.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace strata::controller {
namespace {

// Of several writes to one record only the last counts.
std::vector<Write> LastOfEach(std::vector<Write>& writes) {
  std::map<std::pair<std::string, std::string>, size_t> last;
  for (size_t i = 0; i < writes.size(); ++i) last[{writes[i].table, writes[i].key}] = i;
  std::vector<Write> kept;
  kept.reserve(last.size());
  for (size_t i = 0; i < writes.size(); ++i) {
    if (last[{writes[i].table, writes[i].key}] == i) kept.push_back(std::move(writes[i]));
  }
  return kept;
}

}  // namespace

void Reactor::Listener::OnEffects(const Core& /*core*/, const Effects& /*effects*/) {}
void Reactor::Listener::OnTick(const Core& /*core*/) {}
void Reactor::Listener::OnLoad(const Core& /*core*/) {}
void Reactor::Listener::OnStop() {}

Reactor::Reactor(Store* store, MakeCore make_core, const common::Clock* clock, Options options)
    : store_(store),
      make_core_(std::move(make_core)),
      clock_(clock),
      options_(std::move(options)) {}

absl::Status Reactor::Load() {
  ready_ = false;
  ASSIGN_OR_RETURN(const std::vector<Write> records, store_->Load());
  core_ = make_core_();
  ASSIGN_OR_RETURN(term_, core_->Load(records, common::WallSeconds()));
  for (Listener* listener : listeners_) listener->OnLoad(*core_);
  const absl::Status status = CommitTerm();
  return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
}

absl::Status Reactor::CommitTerm() {
  Effects effects = term_;
  RETURN_IF_ERROR(Commit(effects));
  ready_ = true;
  Publish(effects);
  term_ = Effects();
  return absl::OkStatus();
}

absl::Status Reactor::Reload() {
  // What was said since is void; agents come back and say what is.
  return Load();
}

absl::Status Reactor::Commit(Effects& effects) {
  if (effects.writes.empty()) return absl::OkStatus();
  effects.writes = LastOfEach(effects.writes);
  RETURN_IF_ERROR(store_->Commit(effects.writes));
  ++commits_;
  return absl::OkStatus();
}

void Reactor::Publish(const Effects& effects) {
  for (Listener* listener : listeners_) listener->OnEffects(*core_, effects);
}

absl::Status Reactor::Process(std::vector<Input> batch) {
  Effects effects;
  const bool ready = ready_;
  std::vector<bool> applied(batch.size());
  for (size_t i = 0; i < batch.size(); ++i) {
    applied[i] = ready || batch[i].reads_only;
    if (applied[i]) batch[i].apply(*core_, effects);
  }
  const absl::Status status = Commit(effects);
  const absl::Status refused =
      absl::ResourceExhaustedError("nothing can be made durable: the controller's disk is full");
  if (status.ok()) Publish(effects);
  // Before the refusals go out, so that whoever got one finds what it says.
  const absl::Status after = absl::IsResourceExhausted(status) ? Reload() : status;
  for (size_t i = 0; i < batch.size(); ++i) batch[i].release(applied[i] ? status : refused);
  return after;
}

absl::Status Reactor::Tick() {
  has_room_ = options_.has_room();
  if (!ready_) {
    const absl::Status status = CommitTerm();
    return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
  }
  Effects effects;
  core_->OnTick(common::WallSeconds(), effects, std::exchange(standstill_, 0));
  const absl::Status status = Commit(effects);
  if (absl::IsResourceExhausted(status)) return Reload();
  RETURN_IF_ERROR(status);
  Publish(effects);
  for (Listener* listener : listeners_) listener->OnTick(*core_);
  return absl::OkStatus();
}

std::vector<Reactor::Input> Reactor::TakeBatch(double until) {
  std::unique_lock lock(mutex_);
  const double wait = std::max(0.0, until - clock_->Now());
  changed_.wait_for(lock, std::chrono::duration<double>(wait), [&] { return !queue_.empty(); });
  // Woken late: only what this thread slept too long, never what it worked.
  if (const double late = clock_->Now() - until; late > options_.tick_seconds && wait > 0) {
    standstill_ += late;
  }
  std::vector<Input> batch;
  const size_t size = std::min(queue_.size(), options_.batch);
  batch.reserve(size);
  for (size_t i = 0; i < size; ++i) {
    counted_ -= queue_.front().counts ? 1 : 0;
    batch.push_back(std::move(queue_.front().input));
    queue_.pop_front();
  }
  return batch;
}

void Reactor::TellArrivals() {
  std::vector<uint64_t> arrived;
  {
    const std::lock_guard lock(mutex_);
    arrived.swap(arrived_);
  }
  if (!arrived.empty()) core_->OnArrived(arrived);
}

absl::Status Reactor::Run(const std::atomic<bool>& stop) {
  absl::Status status;
  double next_tick = clock_->Now();
  while (status.ok() && !stop) {
    if (clock_->Now() >= next_tick) {
      next_tick = clock_->Now() + options_.tick_seconds;
      TellArrivals();
      status = Tick();
    } else if (std::vector<Input> batch = TakeBatch(next_tick); !batch.empty()) {
      TellArrivals();
      status = Process(std::move(batch));
    }
  }
  Close(status.ok() ? absl::UnavailableError("the controller is shutting down")
                    : absl::UnavailableError(
                          absl::StrCat("the controller ends: ", std::string(status.message()))));
  return status;
}

void Reactor::Close(const absl::Status& status) {
  ready_ = false;
  std::deque<Waiting> left;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    left.swap(queue_);
  }
  for (const Waiting& waiting : left) waiting.input.release(status);
  for (Listener* listener : listeners_) listener->OnStop();
}

absl::Status Reactor::Enqueue(Waiting waiting) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return absl::UnavailableError("the controller is shutting down");
    if (waiting.counts && counted_ >= options_.most_queued) {
      return absl::ResourceExhaustedError(absl::StrCat(counted_, " requests wait already"));
    }
    counted_ += waiting.counts ? 1 : 0;
    if (waiting.input.session != 0) arrived_.push_back(waiting.input.session);
    queue_.push_back(std::move(waiting));
  }
  changed_.notify_one();
  return absl::OkStatus();
}

absl::Status Reactor::Post(Input input) { return Enqueue({std::move(input), true}); }

absl::Status Reactor::PostUnlimited(Input input) { return Enqueue({std::move(input), false}); }

}  // namespace strata::controller
