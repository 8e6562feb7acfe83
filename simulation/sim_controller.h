// The controller's process around the real logic: one input at a time, group commit to a store that
// survives, and only then words. It may die at any commit, before it or after it.
#ifndef STRATA_SIMULATION_SIM_CONTROLLER_H_
#define STRATA_SIMULATION_SIM_CONTROLLER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/entropy.h"
#include "common/random.h"
#include "common/rng.h"
#include "controller/logic/core.h"
#include "controller/simulator/events.h"
#include "protocol/versions.h"
#include "simulation/link.h"
#include "simulation/oracle.h"
#include "simulation/planted_bug.h"

namespace strata::simulation {

class SimController {
 public:
  SimController(simulator::Events& events, common::Random& random, Oracle& oracle, PlantedBug bug,
                bool trace, std::string* story);

  void Start();
  void Kill(double down_seconds);
  // Ends the process; the next ones are of a release that speaks this.
  void Upgrade(const v1::ProtocolRange& protocol, double down_seconds);
  void Pause(double seconds);
  // The n-th commit from the beginning kills the process, just before or just after it.
  void DieAtCommit(int commit, bool after) { deaths_[commit] = after; }
  void set_sync_seconds(double seconds) { sync_seconds_ = seconds; }
  // Commits take so long for a while.
  void SlowDown(double sync_seconds, double for_seconds);
  void JumpClock(double seconds) { wall_offset_ += seconds; }  // the wall clock, either way

  void Tell(const std::string& what) const;  // for people, when there is a trace
  bool Reachable() const { return core_ != nullptr; }
  // A node's agent opens a session.
  void Accept(const std::shared_ptr<Link>& link);
  // A call: Result request(Core&, Effects&), then answer(Result) when what it did is durable; never
  // when the process dies before, or is dead.
  template <typename Request, typename Answer>
  void Ask(Request request, Answer answer) {
    Run([this, request, answer](Batch& batch) {
      const auto result = request(*core_, batch.effects);
      batch.replies.push_back([result, answer] { answer(result); });
    });
  }
  // Copies the store, as it is on the disk now.
  void BackUp();
  // Ends the process; the next one starts with the last copy, as with --restored. A copy serves
  // once: of two lives of one copy agents hear the first alone. False: there is none.
  bool PutBack(double down_seconds);

  const controller::Core* core() const { return core_.get(); }
  const v1::ProtocolRange& protocol() const { return protocol_; }
  int commits() const { return commits_; }

 private:
  struct Batch {
    controller::Effects effects;
    std::vector<std::function<void()>> replies;
    bool empty() const {
      return effects.writes.empty() && effects.messages.empty() && effects.refused.empty() &&
             replies.empty();
    }
  };

  // Hands an input to the logic, at once or when the process runs again; in their order.
  void Run(std::function<void(Batch&)> input);
  void Handle(const std::function<void(Batch&)>& input);
  void Drain();
  void Tick();
  double WallSeconds() const;
  void UseBackup();
  void Commit();
  void Tell(const std::string& what, const google::protobuf::Message& message) const;
  void Apply(const Batch& batch);
  void Release(const Batch& batch);

  simulator::Events& events_;
  common::Random& random_;
  Oracle& oracle_;
  const PlantedBug bug_;
  const bool trace_;
  std::string* const story_;
  Records store_;
  std::optional<Records> backup_;
  bool put_back_ = false;                              // the next process starts with it
  v1::ProtocolRange protocol_ = protocol::OwnRange();  // of the next process
  uint64_t drawn_ = 0;                                 // words of chance, of all its lives
  const common::Entropy entropy_ = [this] { return common::MixBits(1, ++drawn_); };
  std::unique_ptr<controller::Core> core_;
  uint64_t life_ = 0;
  double ticked_at_ = 0;  // what was put off until then is no standstill any more
  double paused_until_ = 0;
  double sync_seconds_ = 0.004;
  double wall_offset_ = 0;
  int commits_ = 0;
  std::map<int, bool> deaths_;
  bool committing_ = false;
  std::deque<std::function<void(Batch&)>> put_off_;
  Batch pending_;
  uint64_t last_session_ = 0;
  std::map<uint64_t, std::shared_ptr<Link>> sessions_;
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_SIM_CONTROLLER_H_
