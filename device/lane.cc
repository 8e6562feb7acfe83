#include "device/lane.h"

#include <algorithm>

#include "device/cpu_stream.h"
#include "device/thread_pool.h"

namespace strata::device {
// How nobody sleeps through news. A sleeper says what it waits for, then that it sleeps, and then
// looks at the streams once more; whoever ends or issues a command moves the stream's count first
// and looks for sleepers then. All of it is sequentially consistent, so one of the two sees the
// other.
void LaneGroup::WakeThoseAfter(const CpuStream& stream) {
  const std::lock_guard lock(mutex_);
  for (Lane* lane : lanes_) {
    if (!lane->sleeping_.load()) continue;
    bool wake =
        lane->until_stream_.load() == &stream && stream.ended() >= lane->until_position_.load();
    for (const CpuStream* waiting : lane->streams_) wake |= waiting->IsHeldBy(stream);
    if (wake) lane->Wake();
  }
}

void LaneGroup::WakeOwner(CpuStream& stream) {
  const std::lock_guard lock(mutex_);
  Lane* lane = stream.lane();
  // Where the first thing to do is to wait, the sleeper need not wake to say so.
  if (lane->sleeping_.load() && stream.was_empty() && !stream.PublishWait()) lane->Wake();
}

Lane::Lane(LaneGroup* group) : group_(group) {
  const std::lock_guard lock(group_->mutex_);
  group_->lanes_.push_back(this);
}

Lane::~Lane() {
  Stop();
  const std::lock_guard lock(group_->mutex_);
  group_->lanes_.erase(std::find(group_->lanes_.begin(), group_->lanes_.end(), this));
}

void Lane::Add(CpuStream* stream) {
  const std::lock_guard lock(group_->mutex_);
  streams_.push_back(stream);
}

void Lane::Start() {
  thread_ = std::thread([this] {
    KeepLibrariesSequential();
    Serve();
  });
}

void Lane::Stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  Wake();
  thread_.join();
}

void Lane::ServeUntil(const CpuStream& stream, int64_t position) {
  Announce();
  if (stream.ended() >= position) return;
  until_position_.store(position);
  until_stream_.store(&stream);
  Serve();
  until_stream_.store(nullptr);
}

void Lane::Announce() {
  for (CpuStream* stream : owed_) stream->Announce();
  owed_.clear();
}

bool Lane::Ended() const {
  const CpuStream* until = until_stream_.load(std::memory_order_relaxed);
  return until == nullptr ? stopping_.load(std::memory_order_acquire)
                          : until->ended() >= until_position_.load(std::memory_order_relaxed);
}

bool Lane::Advance() {
  bool moved = false;
  for (CpuStream* stream : streams_) {
    while (!Ended() && stream->RunHead()) moved = true;
  }
  return moved;
}

void Lane::Serve() {
  while (!Ended()) {
    bool moved = Advance();
    moved |= Progress();
    if (!moved && !Ended()) Sleep();
  }
}

void Lane::Sleep() {
  GoToSleep();
  bool ready = false;
  for (const CpuStream* stream : streams_) ready |= stream->CanRunHead();
  if (!ready && !Ended()) Block();
  group_->sleepers_.fetch_sub(1);
  sleeping_.store(false);
}

void Lane::GoToSleep() {
  const std::lock_guard lock(group_->mutex_);
  for (CpuStream* stream : streams_) stream->Publish();
  sleeping_.store(true);
  group_->sleepers_.fetch_add(1);
}

void Lane::Block() {
  std::unique_lock lock(mutex_);
  wakes_.wait(lock, [this] { return woken_; });
  woken_ = false;
}

void Lane::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wakes_.notify_one();
}

}  // namespace strata::device
