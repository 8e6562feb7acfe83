// A communicator of NCCL's stand-in: one rank's handle, and what its members share.
#ifndef STRATA_DEVICE_STANDIN_NCCL_COMM_H_
#define STRATA_DEVICE_STANDIN_NCCL_COMM_H_

#include <nccl.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "device/standin/nccl_call.h"
#include "device/standin/nccl_wire.h"
#include "device/standin/streams.h"

namespace strata::standin {

// A collective, or a message, as members' calls come together.
struct Exchange {
  Meeting meeting;
  int clique = 0;                              // its number
  std::vector<std::optional<NcclCall>> calls;  // by member
  std::vector<uint64_t> numbers;               // by member: of the issue among its device's
  std::vector<int> places;                     // by member: of the call in its issue
  std::vector<int> ranks;                      // of the members
  NcclInputs elsewhere;                        // by member
  std::string name;
  bool is_broken = false;  // members disagree: nothing is done
};

struct MemberOf {
  std::shared_ptr<Exchange> exchange;
  int member = 0;
};

// The members of one communicator.
struct Clique {
  struct Split {
    int color = 0, key = 0;
    ncclComm* child = nullptr;
    ncclComm_t* made = nullptr;  // where the caller wants it; null: it is gone
  };
  int number = 0;
  std::vector<ncclComm*> members;                             // by rank; null: not come
  std::vector<bool> is_gone;                                  // aborted or destroyed
  std::map<uint64_t, std::shared_ptr<Exchange>> collectives;  // not complete, by sequence
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Exchange>>> messages;
  std::map<uint64_t, std::vector<std::optional<Split>>> splits;
  int joined = 0, finalized = 0;
  NcclWire::Room* room = nullptr;  // null: all members are of this process

  int size() const { return static_cast<int>(members.size()); }
  bool IsFormed() const { return joined == size(); }
  std::string NameOf(int rank) const {
    return "rank " + std::to_string(rank) + " of communicator #" + std::to_string(number);
  }
};

// Calls that become one operation of a stream.
struct Issue {
  std::vector<NcclCall> calls;
  std::vector<Stream*> streams;  // the first has it, the others wait
};

}  // namespace strata::standin

// NCCL's handle: one rank's. Of a rank in another process: what stands for it here, with no handle.
struct ncclComm {
  std::shared_ptr<strata::standin::Clique> clique;  // null: its split has not ended
  int rank = 0, device = 0;
  bool is_blocking = true;
  bool is_splitting = false, is_finalized = false;
  std::string end;                     // "was aborted"; empty: it is alive
  ncclResult_t failure = ncclSuccess;  // asynchronous
  int polls_left = 0;
  std::optional<strata::standin::Issue> waiting;       // for polls
  uint64_t collectives = 0, splits = 0;                // issued
  strata::standin::Mark last;                          // the end of its last operation
  std::vector<strata::standin::Part> parts;            // that may not have ended
  std::set<std::pair<uint64_t, uint64_t>> registered;  // begin and bytes
  std::string error;                                   // the last
  // Of another process: its stream here, and by an issue's number the members it has not come to.
  strata::standin::Stream* stream = nullptr;
  std::map<uint64_t, std::vector<strata::standin::MemberOf>> expected;

  std::string Name() const {
    return clique == nullptr ? "a communicator that has not formed" : clique->NameOf(rank);
  }
};

#endif  // STRATA_DEVICE_STANDIN_NCCL_COMM_H_
