// Members of communicators that are other processes (Options::ranks_are_processes).
//
// Each has here what stands for it: an ncclComm whose calls come over the wire, so that they are
// matched as those of threads are, and a stream for its parts. A member whose stream comes to its
// part sends what it reads; when all have come, each process does the operation for itself.
#ifndef STRATA_DEVICE_STANDIN_NCCL_PROCESSES_H_
#define STRATA_DEVICE_STANDIN_NCCL_PROCESSES_H_

#include <nccl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/standin/nccl_comm.h"
#include "device/standin/nccl_matching.h"
#include "device/standin/nccl_wire.h"
#include "device/standin/runtime.h"

namespace strata::standin {

class NcclProcesses {
 public:
  NcclProcesses(Runtime& runtime, NcclMatching& matching);

  static std::string NewId();
  static bool IsId(const ncclUniqueId& id);

  // Meets the other members, who join `comm.clique` as they come; false: one has this rank.
  bool Join(ncclComm& comm, const ncclUniqueId& id);
  void TellIssue(ncclComm& comm, uint64_t number, const std::vector<NcclCall>& calls);
  void TellFinalize(const ncclComm& comm);
  void Leave(ncclComm& comm);

 private:
  void TellCome(const Clique& clique, const Exchange& exchange, int member, OperationId id);
  void Hear(ncclComm& comm, int from, NcclWire::Frame frame);
  void HearHello(ncclComm& comm, int from, const NcclWire::Frame& frame);
  void HearIssue(ncclComm& other, const NcclWire::Frame& frame);
  static void HearCome(ncclComm& other, NcclWire::Frame frame);
  void HearGone(ncclComm& comm, int from);
  // Operations of `comm` that a member will have no part in, as it issues nothing more.
  void CheckEnd(const ncclComm& comm, const ncclComm& other);
  void Fail(ncclComm& comm, ncclResult_t result, const std::string& text);
  // A device makes its streams go on whatever its host does: towards what others have come to.
  // When it is to be looked at again.
  int RunWanted();

  Runtime& runtime_;
  NcclMatching& matching_;
  std::map<int, int> devices_;                        // numbers for those of other processes
  std::vector<ncclComm*> comms_;                      // of this process, alive
  std::vector<std::unique_ptr<ncclComm>> elsewhere_;  // what stands for members
  NcclWire wire_;                                     // last: its thread uses the rest
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NCCL_PROCESSES_H_
