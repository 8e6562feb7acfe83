#include "worker/agent/machine/file_work.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace strata::worker {

struct FileWork::State {
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;  // the first one is under way
  bool begun = false;                       // there is a thread
  bool late = false;                        // somebody has waited for these in vain
  bool ended = false;

  void Run();
};

void FileWork::State::Run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return ended || !tasks.empty(); });
    if (tasks.empty()) return;
    std::function<void()> task = std::move(tasks.front());
    lock.unlock();
    task();
    task = nullptr;  // what it owns may hang as well
    lock.lock();
    tasks.pop_front();
    if (!tasks.empty()) continue;
    late = false;
    changed.notify_all();
  }
}

FileWork::FileWork() : state_(std::make_shared<State>()) {}

FileWork::~FileWork() {
  const std::lock_guard lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

void FileWork::Do(std::function<void()> task) {
  const std::lock_guard lock(state_->mutex);
  state_->tasks.push_back(std::move(task));
  state_->changed.notify_all();
  if (std::exchange(state_->begun, true)) return;
  std::thread([state = state_] { state->Run(); }).detach();
}

bool FileWork::Settle(double seconds) {
  std::unique_lock lock(state_->mutex);
  const auto done = [this] { return state_->tasks.empty(); };
  if (!state_->late) {
    state_->late = !state_->changed.wait_for(lock, std::chrono::duration<double>(seconds), done);
  }
  return done();
}

}  // namespace strata::worker
