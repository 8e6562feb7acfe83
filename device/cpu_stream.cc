#include "device/cpu_stream.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "common/clock.h"

namespace strata::device {

absl::StatusOr<bool> CpuEvent::Reached() const {
  issuer_->Announce();
  return stream_ == nullptr || stream_->ended() >= position_;
}

absl::Status CpuEvent::Synchronize() {
  issuer_->Announce();
  if (stream_ != nullptr) issuer_->ServeUntil(*stream_, position_);
  return absl::OkStatus();
}

absl::Status CpuStream::Wait(const Event& event) {
  const auto& place = static_cast<const CpuEvent&>(event);
  const bool implied = place.stream_ == nullptr || place.stream_ == this;
  if (implied || place.stream_->ended() >= place.position_) return absl::OkStatus();
  return Push(WaitFor{place.stream_, place.position_});
}

absl::Status CpuStream::Record(Event& event) {
  auto& place = static_cast<CpuEvent&>(event);
  place.stream_ = this;
  place.position_ = issued_.load(std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status CpuStream::Launch(HostFunction function) { return Push(function); }

absl::Status CpuStream::LaunchPolled(PolledFunction function) { return Push(function); }

absl::Status CpuStream::Copy(void* to, const void* from, int64_t bytes) {
  return Push(Bytes{to, from, bytes});
}

absl::Status CpuStream::Push(const Command& command) {
  const int64_t place = issued_.load(std::memory_order_relaxed);
  if (place - ended() >= kCapacity) issuer_->ServeUntil(*this, place - kCapacity + 1);
  queue_[place % kCapacity] = command;
  issued_.store(place + 1, std::memory_order_release);
  // The issuing thread finds its own streams' commands when it waits.
  if (lane_ == issuer_) return absl::OkStatus();
  if (unannounced_++ == 0) issuer_->Owe(this);
  if (unannounced_ == kBatch) issuer_->Announce();
  return absl::OkStatus();
}

void CpuStream::Announce() {
  unannounced_ = 0;
  issued_.store(issued_.load());  // before the look for sleepers, in the one order of both
  group_->NoteIssued(*this);
}

bool CpuStream::RunHead() {
  const int64_t place = ended_.load(std::memory_order_relaxed);
  if (place == issued_.load(std::memory_order_acquire)) return false;
  const Command& command = queue_[place % kCapacity];
  if (const auto* launch = std::get_if<HostFunction>(&command)) {
    launch->call(launch->object, launch->argument);
  } else if (const auto* wait = std::get_if<WaitFor>(&command)) {
    if (!IsOver(*wait)) return false;
  } else if (const auto* polled = std::get_if<PolledFunction>(&command)) {
    begun_ = !polled->call(polled->object, polled->argument);
    if (begun_) return false;
  } else {
    Run(std::get<Bytes>(command));
  }
  SetEnded(place + 1);
  return true;
}

void CpuStream::EndOne() { SetEnded(ended_.load(std::memory_order_relaxed) + 1); }

void CpuStream::SetEnded(int64_t ended) {
  if (mirror_ != nullptr) {
    std::atomic_ref<uint32_t>(*mirror_).store(static_cast<uint32_t>(ended));
  }
  ended_.store(ended);
  group_->NoteEnded(*this);
}

void CpuStream::Run(const Bytes& copy) const {
  if (copy.bytes == 0) return;
  if (copy_rate_ == 0) {
    std::memcpy(copy.to, copy.from, copy.bytes);
    return;
  }
  const common::MonotonicClock clock;
  const double begin = clock.Now();
  std::memcpy(copy.to, copy.from, copy.bytes);
  const double least = static_cast<double>(copy.bytes) / copy_rate_;
  const std::chrono::duration<double> left(least - (clock.Now() - begin));
  if (left.count() > 0) std::this_thread::sleep_for(left);
}

bool CpuStream::CanRunHead() const {
  if (ended_.load() == issued_.load()) return false;
  if (const auto* wait = std::get_if<WaitFor>(&head())) return IsOver(*wait);
  return !(begun_ && std::holds_alternative<PolledFunction>(head()));
}

void CpuStream::Publish() {
  held_by_.store(nullptr);
  empty_.store(false);
  PublishWait();
}

bool CpuStream::PublishWait() {
  const int64_t place = ended_.load();
  if (place == issued_.load()) {
    empty_.store(true);
    return true;
  }
  const auto* wait = std::get_if<WaitFor>(&queue_[place % kCapacity]);
  if (wait == nullptr) return false;
  held_until_.store(wait->position);
  held_by_.store(wait->stream);
  empty_.store(false);
  return !IsOver(*wait);
}

}  // namespace strata::device
