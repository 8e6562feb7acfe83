// Communicators of NCCL's stand-in: how they form, are used and end.
#ifndef STRATA_DEVICE_STANDIN_NCCL_WORLD_H_
#define STRATA_DEVICE_STANDIN_NCCL_WORLD_H_

#include <nccl.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/standin/nccl_comm.h"
#include "device/standin/nccl_matching.h"
#include "device/standin/nccl_processes.h"
#include "device/standin/runtime.h"

namespace strata::standin {

// All of a runtime. Calls hold the runtime's mutex; those that wait let other threads act.
class NcclWorld : public Extension {
 public:
  explicit NcclWorld(Runtime& runtime);
  static NcclWorld& Of(Runtime& runtime);

  void OnMark(Stream& stream, const char* what) override;

  ncclUniqueId MakeId();
  // Handles of the calling thread's device. Blocking ones have formed when it returns, others are
  // in progress; of a split's, the handle is there when the parent is not in progress any more.
  ncclResult_t Join(ncclComm_t* made, int size, const ncclUniqueId& id, int rank, bool blocking);
  ncclResult_t Split(ncclComm& parent, int color, int key, bool blocking, ncclComm_t* made);
  ncclResult_t Finalize(ncclComm& comm);
  ncclResult_t Destroy(ncclComm& comm);
  void Abort(ncclComm& comm);
  // All of a device's fail asynchronously.
  void Fail(int device, ncclResult_t error);
  // The n-th that it made does, and its operations end.
  void CutOff(int device, int n, ncclResult_t error);

  // The communicator of a handle; null, with a finding, when `call` is done to none or a dead one.
  ncclComm* Find(ncclComm_t handle, const char* call);
  // Success, in progress, or its failure; a poll makes what is in progress go on.
  ncclResult_t Poll(ncclComm& comm);

  // Groups are the calling thread's.
  ncclResult_t StartGroup();
  ncclResult_t EndGroup();
  ncclResult_t Call(ncclComm& comm, const NcclCall& call, cudaStream_t stream);

  // A finding and an error.
  ncclResult_t Refuse(ncclComm* comm, ncclResult_t result, const std::string& text);
  void SetPollsToIssue(int polls) { polls_to_issue_ = polls; }

 private:
  struct Group;  // of a thread
  Group& ThreadGroup() const;

  void EndParts(const ncclComm& comm);
  ncclResult_t State(const ncclComm& comm) const;
  std::string WrongArgument(const ncclComm& comm, const NcclCall& call, const Stream& stream);
  std::string WrongMemory(const ncclComm& comm, const NcclCall& call, uint64_t begin,
                          uint64_t bytes);
  ncclResult_t Put(ncclComm& comm, Issue issue);
  void Place(ncclComm& comm, const Issue& issue);
  void FormSplits(Clique& parent, std::vector<std::optional<Clique::Split>> splits);
  ncclResult_t AwaitFormed(ncclComm& comm);
  ncclComm* MakeComm(bool blocking);
  void Leave(ncclComm& comm);
  // Blocks until a condition holds; false, with a finding: no thread does anything for it. Other
  // processes are waited for as long as they live.
  template <typename Condition>
  bool Await(const std::string& who, const char* for_what, Condition&& condition);

  Runtime& runtime_;
  NcclMatching matching_;
  std::unique_ptr<NcclProcesses> processes_;  // null: ranks are threads of this one
  const uint64_t number_;                     // of worlds made
  int polls_to_issue_ = 1;
  int cliques_made_ = 0;
  std::map<std::string, std::shared_ptr<Clique>> ids_;  // null: nobody has joined
  std::vector<std::unique_ptr<ncclComm>> comms_;        // dead ones too: no handle is made twice
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NCCL_WORLD_H_
