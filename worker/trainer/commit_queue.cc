#include "worker/trainer/commit_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace strata::worker {
namespace {

absl::Status AddFragments(const v1::CommitCheckpoint& command, checkpoint::CommitRequest& request) {
  for (const std::string& text : command.fragments()) {
    absl::StatusOr<checkpoint::FileFragment> fragment = checkpoint::FileFragment::FromJson(text);
    if (!fragment.ok()) return fragment.status();
    request.fragments.push_back(*std::move(fragment));
  }
  return absl::OkStatus();
}

int64_t BytesOf(const checkpoint::CommitRequest& request) {
  int64_t bytes = 0;
  for (const checkpoint::FileFragment& file : request.fragments) bytes += file.size_bytes;
  return bytes;
}

}  // namespace

CommitQueue::CommitQueue(Commit commit, OnCommitted on_committed)
    : commit_(std::move(commit)),
      on_committed_(std::move(on_committed)),
      thread_([this] { Work(); }) {}

CommitQueue::~CommitQueue() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::Status CommitQueue::Announce(const checkpoint::CheckpointInfo& info, int64_t keep) {
  if (absl::Status status = Wait(kMaxWaiting - 1); !status.ok()) return status;
  const std::lock_guard<std::mutex> lock(mutex_);
  checkpoint::CommitRequest& request = waiting_[info.step].request;
  request.info = info;
  request.keep = keep;
  return absl::OkStatus();
}

void CommitQueue::Complete(const v1::CommitCheckpoint& command) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = waiting_.find(command.step());
    if (found == waiting_.end() || found->second.complete) return;
    found->second.problem = AddFragments(command, found->second.request);
    found->second.complete = true;
  }
  changed_.notify_all();
}

absl::Status CommitQueue::Wait(size_t most) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !status_.ok() || waiting_.size() <= most; });
  return status_;
}

absl::Status CommitQueue::WaitForAll() { return Wait(0); }

void CommitQueue::Cancel() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_.ok()) status_ = absl::CancelledError("checkpoint: cancelled");
  }
  changed_.notify_all();
}

void CommitQueue::Work() {
  const common::MonotonicClock clock{};
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] {
      return stop_ || (status_.ok() && !waiting_.empty() && waiting_.begin()->second.complete);
    });
    if (stop_) return;
    const Waiting next = waiting_.begin()->second;
    lock.unlock();
    const double begin = clock.Now();
    absl::StatusOr<checkpoint::Published> published = checkpoint::Published{};
    if (!next.problem.ok()) {
      published = next.problem;
    } else {
      published = commit_(next.request);
    }
    if (published.ok()) {
      v1::CheckpointCommitted committed;
      committed.set_path(published->folder);
      committed.set_step(next.request.info.step);
      committed.set_bytes(BytesOf(next.request));
      committed.set_seconds(clock.Now() - begin);
      on_committed_(committed, published->cleanup);
    }
    lock.lock();
    if (!published.ok() && status_.ok()) status_ = published.status();
    waiting_.erase(next.request.info.step);
    changed_.notify_all();
  }
}

}  // namespace strata::worker
