// A controller that does what a test says: it keeps what agents tell it, answers what every
// controller answers, and otherwise sends what the test sends.
#ifndef STRATA_TESTS_INTEGRATION_FAKE_CONTROLLER_H_
#define STRATA_TESTS_INTEGRATION_FAKE_CONTROLLER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/strata/v1/agent.pb.h"

namespace strata::integration {

// Any thread.
class FakeController {
 public:
  struct Options {
    int port = 0;  // 0: any
    int64_t term = 1;
    double heartbeat_seconds = 0.2;
    double lease_seconds = 30;
    double orphan_seconds = 600;
    bool keep_all = true;                  // held epochs are wanted
    bool answer_commits = true;            // with yes; else not at all
    std::string cluster = {}, store = {};  // Welcome.cluster, store_incarnation
    std::vector<std::string> earlier_stores = {};
  };
  struct Said {
    std::string node;
    v1::AgentMessage message;
  };
  using Matches = std::function<bool(const Said&)>;

  explicit FakeController(const Options& options);
  ~FakeController();  // ends all sessions
  FakeController(const FakeController&) = delete;
  FakeController& operator=(const FakeController&) = delete;

  int port() const;
  void Send(const std::string& node, v1::ControllerMessage message);
  // The first thing said from number `from` on that matches; nothing within `seconds`.
  std::optional<Said> WaitFor(const Matches& matches, double seconds, size_t from = 0);
  size_t count() const;  // of things said
  std::vector<Said> All() const;
  // Checkpoints whose commit was answered with yes, in order.
  std::vector<v1::CommittedCheckpoint> Recorded() const;

  // The ranks of an epoch, by node: fragments of all of them become a manifest for rank 0's node.
  void ExpectRanks(const std::map<std::string, std::vector<int>>& nodes);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata::integration

#endif  // STRATA_TESTS_INTEGRATION_FAKE_CONTROLLER_H_
