// The one thread that owns the logic: takes inputs in their order, many at a time, makes all they
// changed durable in one commit, and only then lets out what was said.
//
//   gRPC threads --Post--> queue --(batch)--> Core --> Store::Commit --> listeners, replies
#ifndef STRATA_CONTROLLER_SERVICE_REACTOR_REACTOR_H_
#define STRATA_CONTROLLER_SERVICE_REACTOR_REACTOR_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "controller/logic/core.h"
#include "controller/store/store.h"

namespace strata::controller {

class Reactor {
 public:
  struct Options {
    size_t most_queued = 4096;  // requests that wait, by Post; more are refused
    size_t batch = 256;         // inputs that share a commit
    double tick_seconds = 0.25;
    // Whether the disk has room for more than what running jobs need; asked once per tick.
    std::function<bool()> has_room = [] { return true; };
  };

  struct Input {
    // On the reactor's thread. It must not block.
    std::function<void(Core&, Effects&)> apply;
    // Always called, once, from the reactor's thread. OK: applied, and durable. ResourceExhausted
    // or Unavailable: nothing of it happened, or will be found after a restart.
    std::function<void(const absl::Status&)> release;
    // Changes nothing: is served also while nothing can be made durable.
    bool reads_only = false;
    // Of the agent whose word it is; 0: of none. The logic knows of its arrival before it judges
    // anybody's silence again.
    uint64_t session = 0;
  };

  // Hears of what is durable, on the reactor's thread, before the batch's inputs are released.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnEffects(const Core& core, const Effects& effects);
    virtual void OnTick(const Core& core);
    // The logic was loaded from the store: at the start, and after a commit that failed.
    virtual void OnLoad(const Core& core);
    // The reactor ends: whoever listens is to be told.
    virtual void OnStop();
  };

  using MakeCore = std::function<std::unique_ptr<Core>()>;

  // Borrowed: store, clock.
  Reactor(Store* store, MakeCore make_core, const common::Clock* clock, Options options);

  // Before Load. Borrowed.
  void AddListener(Listener* listener) { listeners_.push_back(listener); }
  // Reads the store and begins a new term. ResourceExhausted is no failure: Run tries again.
  absl::Status Load();
  // Runs until `stop` is set (noticed within tick_seconds; a signal handler may set it) or nothing
  // can be made durable any more: then returns why. Inputs that wait are released with Unavailable.
  absl::Status Run(const std::atomic<bool>& stop);
  // What Run does at its end, for reactors that never ran: refuses all further inputs, releases
  // those that wait with `status`, tells the listeners. Not beside Run.
  void Close(const absl::Status& status);

  // From any thread. Not OK: the input was refused and neither of its functions will be called.
  // ResourceExhausted: too many wait. Unavailable: the reactor has ended.
  absl::Status Post(Input input);
  // The same without the limit, for senders that limit themselves.
  absl::Status PostUnlimited(Input input);

  // Whether changes can be made durable; from any thread.
  bool ready() const { return ready_; }
  bool has_room() const { return has_room_; }
  int64_t commits() const { return commits_; }

 private:
  struct Waiting {
    Input input;
    bool counts;  // among the most_queued
  };
  absl::Status Enqueue(Waiting waiting);
  std::vector<Input> TakeBatch(double until);
  void TellArrivals();
  // Runs one batch; an error is final.
  absl::Status Process(std::vector<Input> batch);
  absl::Status Tick();
  absl::Status Commit(Effects& effects);
  void Publish(const Effects& effects);
  // After a commit that the disk had no room for: forgets what was not made durable.
  absl::Status Reload();
  absl::Status CommitTerm();

  Store* const store_;
  const MakeCore make_core_;
  const common::Clock* const clock_;
  const Options options_;
  std::vector<Listener*> listeners_;

  std::unique_ptr<Core> core_;
  double standstill_ = 0;  // seconds since the last tick that this thread was due and did not run
  Effects term_;           // of Load, until they are durable
  std::atomic<bool> ready_{false};
  std::atomic<bool> has_room_{true};
  std::atomic<int64_t> commits_{0};

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Waiting> queue_;
  size_t counted_ = 0;             // of the queue: those that count
  std::vector<uint64_t> arrived_;  // sessions of inputs that came since the last TellArrivals
  bool closed_ = false;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_REACTOR_REACTOR_H_
