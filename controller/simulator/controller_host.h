// The real controller's logic as a process on virtual time: its store, its sessions, its end.
//
// Heartbeats are not simulated one by one: before each input the core is told which sessions were
// silent since the last one (Core::OnHeard). Ticks come every second while something is unsettled,
// every few seconds while it may be, and otherwise once in a long while.
#ifndef STRATA_CONTROLLER_SIMULATOR_CONTROLLER_HOST_H_
#define STRATA_CONTROLLER_SIMULATOR_CONTROLLER_HOST_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/entropy.h"
#include "common/rng.h"
#include "controller/logic/core.h"
#include "controller/simulator/events.h"
#include "controller/simulator/latencies.h"
#include "controller/simulator/planted_bug.h"
#include "topology/cluster.h"

namespace strata::simulator {

class ControllerHost {
 public:
  // What the world does with what the controller says; called after the event that caused it.
  struct Listener {
    std::function<void(const v1::JobRecord&)> on_changed;
    std::function<void(std::vector<controller::Outgoing>)> on_messages;
    std::function<void()> on_start;  // it can be reached (again)
  };

  // Borrowed: events.
  ControllerHost(Events* events, const topology::Description& cluster, double waiting_tick_seconds,
                 PlantedBug bug);

  void set_listener(Listener listener) { listener_ = std::move(listener); }
  void Start();
  // All sessions end; it is back after `down_seconds`.
  void Kill(double down_seconds);
  bool up() const { return core_ != nullptr; }

  // A new session's number; 0 while it cannot be reached.
  uint64_t Open() { return up() ? ++last_session_ : 0; }
  void Say(uint64_t session, const v1::AgentMessage& message);
  void EndSession(uint64_t session);
  // From now on nothing is heard of it.
  void Silence(uint64_t session);
  absl::Status Apply(const v1::Policy& policy);
  absl::StatusOr<v1::JobRecord> Create(const v1::CreateJobRequest& request);
  void Cancel(const std::string& job);
  // Takes no new ranks, and is left by those that run, or (drain false) as before.
  void Drain(const std::string& node, bool drain);

  // To be called after every event: makes durable what was decided, then says it.
  void Flush();
  // Something is going on that time alone may have to settle: ticks are frequent for a while.
  void Alert();

  const controller::Core* core() const { return core_.get(); }
  int64_t inputs() const { return inputs_; }
  int64_t commits() const { return commits_; }
  int64_t writes() const { return writes_; }
  int64_t written_bytes() const { return written_bytes_; }
  int64_t messages() const { return messages_; }
  int64_t ticks() const { return ticks_; }

 private:
  void Begin();  // of an input
  void TickAt(double time);
  void Tick();
  void MakeDurable(std::vector<controller::Write>& writes);

  Events* const events_;
  topology::Description map_;  // without nodes: they join by themselves
  const double waiting_tick_seconds_;
  const PlantedBug bug_;
  Listener listener_;
  uint64_t drawn_ = 0;  // words of chance, of all its lives
  const common::Entropy entropy_ = [this] { return common::MixBits(1, ++drawn_); };
  std::unique_ptr<controller::Core> core_;
  std::map<std::pair<std::string, std::string>, controller::Write> store_;
  controller::Effects effects_;  // of the present event
  uint64_t last_session_ = 0;
  std::set<uint64_t> silent_;
  double alerted_at_ = 0;
  uint64_t last_tick_ = 0;  // the one that is put off; earlier ones do not count
  double next_tick_ = 1e300;
  std::set<std::string> waiting_;  // jobs
  int64_t inputs_ = 0, commits_ = 0, writes_ = 0, written_bytes_ = 0, messages_ = 0, ticks_ = 0;
};

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_CONTROLLER_HOST_H_
