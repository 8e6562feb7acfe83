// Which rank no longer moves, from what the progress files of this node's ranks say.
//
// Limits are those of hang_limits.h; a stopped process hangs at once. The culprit is a rank that is
// stuck in its own work, or one whose place in its group's sequence lags; never one that waits in a
// collective. Where every rank here has come to a collective, the missing one is elsewhere, and its
// own agent's to judge while that lives.
#ifndef STRATA_WORKER_AGENT_LOGIC_HANG_VERDICT_H_
#define STRATA_WORKER_AGENT_LOGIC_HANG_VERDICT_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/agent/logic/hang_limits.h"
#include "worker/shared/progress_layout.h"

namespace strata::worker {

// An instruction in flight.
struct RankActivity {
  std::string instruction;
  std::string group;  // empty: it computes
  int stream = 0;
  bool pair = false;      // between two members of the group
  uint64_t sequence = 0;  // collectives: in the group, on the stream
  double seconds = 0;     // so far
  double slowest = 0;     // lately; 0: not executed before
  bool storage = false;   // a file operation, or the wait for one
};

struct RankView {
  int rank = 0;
  bool stopped = false;     // process state T
  bool in_storage = false;  // a thread of it is in process state D, or was a moment ago
  Phase phase = Phase::kStarting;
  double phase_seconds = 0;
  bool checkpointing = false;  // the disk may hold up anything
  // Since a file operation of it, of one chunk, began or ended; infinite: none did.
  double storage_quiet_seconds = std::numeric_limits<double>::infinity();
  bool in_storage_operation = false;
  double quiet_seconds = 0;  // since anything began or ended
  std::string position;      // for messages, where no activity tells
  std::vector<RankActivity> activities;
  // Collectives begun, by group and stream.
  std::map<std::pair<std::string, int>, uint64_t> begun;
  std::map<std::string, std::vector<int>> groups;  // members of this rank's
};

struct HangVerdict {
  int rank = -1;         // the culprit; of several elsewhere the first; -1: not known
  bool local = false;    // it is one of these
  bool stopped = false;  // local: its process was stopped, by SIGSTOP or a debugger
  // For people: nothing is to be done about it yet. `local` is set too.
  bool suspected = false;
  bool storage = false;      // it waits for storage
  double limit_seconds = 0;  // of it; 0: none
  // Not local: a rank elsewhere may have reason to be late; only a silent node is no such reason.
  bool tentative = false;
  std::string group;
  std::string instruction;
  double seconds = 0;
  uint64_t sequence = 0;
  std::vector<int> waiting;  // ranks here that wait in it
  std::vector<int> missing;  // elsewhere
  std::string stack;         // local: where the culprit's threads stand (Trainer::Stack)
};

// Nothing: all move, or wait for one that does. `connected_seconds`: how long the controller could
// have told of others' ends; a rank elsewhere is missed for no longer than that.
std::optional<HangVerdict> JudgeHang(const std::vector<RankView>& ranks, const HangLimits& limits,
                                     double connected_seconds);

// "rank 1 has not moved for 3.1 s: 'reduce block 3', group data".
std::string Describe(const HangVerdict& verdict);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGENT_LOGIC_HANG_VERDICT_H_
