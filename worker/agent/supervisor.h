// Watches over a group of trainers until all of them have ended: hears what they say, notices when
// one dies, when the client goes away and when the user interrupts, and leaves no process behind.
#ifndef STRATA_WORKER_AGENT_SUPERVISOR_H_
#define STRATA_WORKER_AGENT_SUPERVISOR_H_

#include <poll.h>

#include <string>
#include <vector>

#include "common/clock.h"
#include "proto/strata/v1/trainer.pb.h"
#include "worker/agent/client_link.h"
#include "worker/agent/trainer_group.h"
#include "worker/agent/verdict.h"

namespace strata::worker {

// For one group. Used by one thread.
class Supervisor {
 public:
  // All are borrowed.
  Supervisor(ClientLink* client, TrainerGroup* group, GroupTask* task, const common::Clock* clock);

  // Runs the task to its end; afterwards no trainer of the group exists.
  v1::Finished Run();

 private:
  void Wait();
  void HandleClient();
  void HandleTrainer(int rank, bool socket_ready, bool process_ready);
  // Reads once; hands whole messages on.
  void Hear(int rank);
  void HandleEvent(int rank, const v1::TrainerEvent& event);
  void NoteEnd(int rank);
  void HandleDeadline();
  // The group cannot go on: every trainer is told by the end of its socket, and killed if it does
  // not end soon.
  void Stop();

  ClientLink* const client_;
  TrainerGroup* const group_;
  GroupTask* const task_;
  const common::Clock* const clock_;
  std::vector<RankEnd> ends_;
  std::vector<bool> open_;  // the socket of that rank
  int noticed_ = 0;
  int interrupts_handled_ = 0;
  bool interrupted_ = false;  // and not in an orderly way
  std::string task_failure_;  // the task's own reason to stop
  bool stopping_ = false;
  double kill_at_ = -1;  // clock time; negative: not set
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_SUPERVISOR_H_
