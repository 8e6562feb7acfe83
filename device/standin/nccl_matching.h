// How the calls of a communicator's members come together, and whether they fit.
//
// Collectives match by their number on each member; a send matches the receive of the same number
// between the two. A communicator's operations run on each member in the order of their issue.
#ifndef STRATA_DEVICE_STANDIN_NCCL_MATCHING_H_
#define STRATA_DEVICE_STANDIN_NCCL_MATCHING_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/standin/nccl_comm.h"

namespace strata::standin {

class NcclMatching {
 public:
  explicit NcclMatching(Machine& machine) : machine_(machine) {}

  // An issue among those of the member's device.
  uint64_t NextNumber(const ncclComm& comm) { return ++issued_[comm.device]; }
  // The member's part in an operation, or in several at once, about to be put on a stream.
  // `places`: of the calls in the issue; empty: they are all of it.
  Made Match(ncclComm& comm, const std::vector<NcclCall>& calls, uint64_t number,
             const std::vector<int>& places = {});

  // Tells members in other processes that one of this process has come; null: there are none.
  std::function<void(const Clique& clique, const Exchange& exchange, int member, OperationId id)>
      tell_come;

 private:
  struct Order {
    std::shared_ptr<const Exchange> exchange;
    uint64_t first, second;  // issues on two devices
  };
  std::shared_ptr<Exchange> MakeExchange(const Clique& clique, const std::vector<int>& ranks);
  MemberOf MatchCollective(ncclComm& comm, const NcclCall& call);
  MemberOf MatchMessage(ncclComm& comm, const NcclCall& call);
  void Enter(ncclComm& comm, const NcclCall& call, const MemberOf& of);
  void Compare(Exchange& exchange, int member);
  void CheckOrder(const Clique& clique, const std::shared_ptr<Exchange>& exchange);

  Machine& machine_;
  std::map<int, uint64_t> issued_;                           // by device
  std::map<std::pair<int, int>, std::deque<Order>> orders_;  // of pairs of devices, the latest
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NCCL_MATCHING_H_
