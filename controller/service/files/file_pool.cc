#include "controller/service/files/file_pool.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace strata::controller {
namespace {

constexpr auto kEndPatience = std::chrono::seconds(1);

absl::Status DoesNotAnswer(const std::string& key) {
  return absl::UnavailableError(absl::StrCat(key, ": its folder does not answer"));
}

}  // namespace

// Shared with the threads, because one that hangs outlives the pool.
struct FilePool::State : std::enable_shared_from_this<FilePool::State> {
  struct Queue {
    std::deque<Task> waiting;
    bool running = false;
    bool hangs = false;                                // what runs was given up
    std::function<void(const absl::Status&)> give_up;  // of what runs
    double began = 0;                                  // seconds of `clock`
  };

  explicit State(const Options& given) : options(given) {}
  void Work();
  void Watch();
  // With the mutex held: what has run for too long, and what waits behind it.
  std::vector<std::pair<std::string, Task>> TakeOverdue(bool all);
  static void GiveUp(std::vector<std::pair<std::string, Task>> tasks);

  const Options options;
  const common::MonotonicClock clock{};
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::map<std::string, Queue> queues;  // with something that waits or runs
  std::deque<std::string> ready;        // keys with work that may begin
  size_t threads = 0;
  size_t idle = 0;
  size_t busy = 0;  // in tasks that were not given up
  size_t hung = 0;
  bool ended = false;
  bool watch_ended = false;
};

void FilePool::State::Work() {
  std::unique_lock lock(mutex);
  for (;;) {
    ++idle;
    changed.wait(lock, [&] { return ended || !ready.empty(); });
    --idle;
    if (ended) return;
    const std::string key = std::move(ready.front());
    ready.pop_front();
    Queue& queue = queues[key];
    Task task = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    queue.running = true;
    queue.give_up = std::move(task.give_up);
    queue.began = clock.Now();
    ++busy;
    lock.unlock();
    task.run();
    task.run = nullptr;  // what it owns goes without the lock
    lock.lock();
    // A map's entries stay where they are, and nobody takes away one that runs.
    if (std::exchange(queue.hangs, false)) {
      --hung;
    } else {
      --busy;
    }
    queue.running = false;
    std::function<void(const absl::Status&)> owned = std::move(queue.give_up);
    queue.give_up = nullptr;
    if (queue.waiting.empty()) {
      queues.erase(key);
    } else {
      ready.push_back(key);
    }
    lock.unlock();
    owned = nullptr;
    changed.notify_all();
    lock.lock();
  }
}

std::vector<std::pair<std::string, FilePool::Task>> FilePool::State::TakeOverdue(bool all) {
  std::vector<std::pair<std::string, Task>> overdue;
  for (auto& [key, queue] : queues) {
    const bool late = queue.running && clock.Now() - queue.began > options.deadline_seconds;
    if (queue.hangs || !(all || late)) continue;
    if (queue.running) {
      queue.hangs = true;
      --busy;
      ++hung;
      overdue.push_back({key, Task{nullptr, std::move(queue.give_up)}});
      queue.give_up = nullptr;
    }
    for (Task& task : queue.waiting) overdue.push_back({key, std::move(task)});
    queue.waiting.clear();
  }
  if (all) ready.clear();
  return overdue;
}

void FilePool::State::GiveUp(std::vector<std::pair<std::string, Task>> tasks) {
  for (const auto& [key, task] : tasks) {
    if (task.give_up) task.give_up(DoesNotAnswer(key));
  }
}

void FilePool::State::Watch() {
  const auto pause = std::chrono::duration<double>(options.deadline_seconds / 8);
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, pause, [&] { return ended; })) {
    auto overdue = TakeOverdue(/*all=*/false);
    lock.unlock();
    GiveUp(std::move(overdue));
    lock.lock();
  }
  watch_ended = true;
  changed.notify_all();
}

FilePool::FilePool(const Options& options) : state_(std::make_shared<State>(options)) {
  std::thread([state = state_] { state->Watch(); }).detach();
}

FilePool::~FilePool() {
  std::unique_lock lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, kEndPatience,
                           [&] { return state_->busy == 0 && state_->watch_ended; });
  auto left = state_->TakeOverdue(/*all=*/true);
  lock.unlock();
  State::GiveUp(std::move(left));
}

absl::Status FilePool::Submit(const std::string& key, Task task) {
  const std::shared_ptr<State>& state = state_;
  std::unique_lock lock(state->mutex);
  if (state->ended) return absl::UnavailableError("the controller is shutting down");
  if (state->hung >= state->options.most_threads) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the folders of ", state->hung, " jobs do not answer: no thread is left"));
  }
  const auto found = state->queues.find(key);
  if (found != state->queues.end() && found->second.hangs) return DoesNotAnswer(key);
  if (found != state->queues.end() && found->second.waiting.size() >= state->options.most_waiting) {
    return absl::ResourceExhaustedError(
        absl::StrCat(key, ": ", found->second.waiting.size(), " reads and writes wait already"));
  }
  State::Queue& queue = state->queues[key];
  queue.waiting.push_back(std::move(task));
  if (queue.running || queue.waiting.size() > 1) return absl::OkStatus();
  state->ready.push_back(key);
  if (state->ready.size() > state->idle && state->threads < state->options.most_threads) {
    ++state->threads;
    std::thread([state] { state->Work(); }).detach();
  }
  lock.unlock();
  state->changed.notify_all();
  return absl::OkStatus();
}

}  // namespace strata::controller
