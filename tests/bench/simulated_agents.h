// Many agents' sessions from one process: they register, send heartbeats, and answer what stops
// their epochs. They may also prepare and start a job of one mesh; then nothing trains, but all
// that agents say of it is said.
#ifndef STRATA_TESTS_BENCH_SIMULATED_AGENTS_H_
#define STRATA_TESTS_BENCH_SIMULATED_AGENTS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "program/ir/mesh.h"
#include "proto/strata/v1/agent.pb.h"
#include "tests/bench/controller_process.h"
#include "tests/bench/rank_layout.h"

namespace strata::bench {

class SimulatedAgents {
 public:
  // `count` connections to the controller, each of a node with `devices` cpu devices and a
  // heartbeat per second; eight nodes are a rack, and sixteen racks a zone. `layout`: of the job
  // that they start (borrowed); null: they start none.
  SimulatedAgents(const ControllerProcess& controller, int count, int devices,
                  const RankLayout* layout = nullptr);
  ~SimulatedAgents();  // ends the sessions

  // Blocks until every agent was welcomed, or a session has ended (false).
  bool AwaitWelcome();
  int64_t heartbeats() const { return heartbeats_; }
  int64_t prepared() const { return prepared_; }  // requests to prepare that came
  int64_t started() const { return started_; }    // requests to start
  int64_t longest_start_bytes() const { return longest_start_bytes_; }
  // A rank of this agent's present epoch is killed.
  void FailRank(int agent);
  int ended() const { return ended_; }  // sessions that ended by themselves
  // Of one session: seconds from a heartbeat, which tells of ranks that nobody knows, until it is
  // answered that they are to stop. Nothing: that did not come, or the session has ended. One
  // caller at a time.
  std::optional<double> TimeHeartbeat();

 private:
  class Agent;
  void BeatUntilStopped();
  program::Mesh MeshOf(const v1::PrepareEpoch& asked);
  void Count(int welcomed, int ended);

  std::vector<std::unique_ptr<Agent>> agents_;
  std::atomic<int64_t> heartbeats_{0};
  const RankLayout* const layout_;
  int64_t asked_ = 0;  // by TimeHeartbeat
  std::atomic<int64_t> prepared_{0};
  std::atomic<int64_t> started_{0};
  std::atomic<int64_t> longest_start_bytes_{0};
  std::atomic<int> ended_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int welcomed_ = 0;
  std::map<std::string, program::Mesh> meshes_;  // by the order of ranks
  std::thread beats_;
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_SIMULATED_AGENTS_H_
