// Which end of a group of trainers is the cause, and which ones are its echo.
#ifndef STRATA_WORKER_AGENT_LOGIC_VERDICT_H_
#define STRATA_WORKER_AGENT_LOGIC_VERDICT_H_

#include <optional>
#include <string>
#include <vector>

#include "proto/strata/v1/trainer.pb.h"

namespace strata::worker {

// How a rank ended, as seen from outside.
struct RankEnd {
  std::string name;                // "rank 3"
  std::optional<v1::Ended> ended;  // what it said
  bool killed_by_us = false;
  std::string how;       // "was killed by signal 9 (Killed)"
  std::string position;  // "step 17, 'forward block 3'"; may be empty
  int order = 0;         // of being noticed
};

struct Judgement {
  v1::Finished finished;
  int cause = -1;       // index of the end that is the cause of a failure
  bool echo = false;    // and it only echoes another rank's, which is not among these
  bool killed = false;  // it said nothing and was ended by its agent
  std::optional<v1::CheckpointProblem> checkpoint_problem = {};  // that is why it failed

  // Whether `cause` failed by itself: neither by a stop nor for another rank's sake.
  bool found_culprit() const { return cause >= 0 && !echo && !killed; }
};

// The outcome of the group. The cause is, in this order: a rank that died without a word, or said
// why it failed; a rank that failed because another one was gone (an echo). Among equals the one
// noticed first.
Judgement Judge(const std::vector<RankEnd>& ends);

v1::Finished Failed(int exit_code, const std::string& message);
v1::Finished Interrupted();

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_VERDICT_H_
