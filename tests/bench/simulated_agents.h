// Many agents' sessions from one process: they register, send heartbeats, and answer what stops
// their epochs; they never start anything.
#ifndef STRATA_TESTS_BENCH_SIMULATED_AGENTS_H_
#define STRATA_TESTS_BENCH_SIMULATED_AGENTS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace strata::bench {

class SimulatedAgents {
 public:
  // `count` connections to the controller at `address`, each of a node with `devices` cpu devices
  // and a heartbeat per second; eight nodes are a rack, and sixteen racks a zone.
  SimulatedAgents(const std::string& address, int count, int devices);
  ~SimulatedAgents();  // ends the sessions

  // Blocks until every agent was welcomed, or a session has ended (false).
  bool AwaitWelcome();
  int64_t heartbeats() const { return heartbeats_; }
  int64_t prepared() const { return prepared_; }  // requests to prepare that came
  int ended() const { return ended_; }            // sessions that ended by themselves

 private:
  class Agent;
  void BeatUntilStopped();
  void Count(int welcomed, int ended);

  std::vector<std::unique_ptr<Agent>> agents_;
  std::atomic<int64_t> heartbeats_{0};
  std::atomic<int64_t> prepared_{0};
  std::atomic<int> ended_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int welcomed_ = 0;
  std::thread beats_;
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_SIMULATED_AGENTS_H_
