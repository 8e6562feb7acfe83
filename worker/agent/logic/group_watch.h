// Watches over a group of trainers until all of them have ended: hears what they say, notices when
// one dies, and leaves no process behind.
#ifndef STRATA_WORKER_AGENT_LOGIC_GROUP_WATCH_H_
#define STRATA_WORKER_AGENT_LOGIC_GROUP_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/clock.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/logic/trainer_group.h"
#include "worker/agent/logic/verdict.h"

namespace strata::worker {

// For one group. Used by one thread.
class GroupWatch final : private TrainerListener {
 public:
  // `leased`: the trainers go on without a socket, and want their events acknowledged. `task` and
  // `clock` are borrowed.
  GroupWatch(TrainerGroup group, GroupTask* task, const common::Clock* clock, bool leased);
  GroupWatch(const GroupWatch&) = delete;
  GroupWatch& operator=(const GroupWatch&) = delete;

  // Hands the task to trainers just started.
  void Begin() { task_->Begin(group_); }
  TrainerGroup& group() { return group_; }
  // The trainer of a place is back, on another socket, of which nothing was read yet.
  void OnAttached(int place);

  // Clock time at which HandleDeadline has something to do; negative: none.
  double deadline() const { return kill_at_; }
  void HandleDeadline();

  // The group cannot go on: every trainer is told to end, and killed if it does not do so soon.
  void Stop(const std::string& reason);
  void KillAll();
  bool stopping() const { return stopping_; }
  // Trainers with a lease hear at once how long it is: this process may be gone before the next
  // sign of life.
  void SetLease(double seconds);
  // Signs of life to trainers with a lease, and what they need not keep.
  void Acknowledge();

  bool done() const { return group_.AllReaped(); }
  // How the group ended; once it is done.
  Judgement Verdict() const;

 private:
  // TrainerListener
  void OnEvent(int place, const v1::TrainerEvent& event) override;
  void OnDisconnect(int place, const std::string& problem) override;
  void OnGone(int place) override { NoteEnd(place); }

  void NoteEnd(int place);
  void AcknowledgeOne(int place, bool always);

  TrainerGroup group_;
  GroupTask* const task_;
  const common::Clock* const clock_;
  const bool leased_;
  double lease_seconds_ = 0;  // 0: as their task said
  std::vector<RankEnd> ends_;
  std::vector<uint64_t> heard_, acknowledged_;
  int noticed_ = 0;
  std::string task_failure_;  // the task's own reason to stop
  bool stopping_ = false;
  double kill_at_ = -1;  // clock time; negative: not set
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_GROUP_WATCH_H_
