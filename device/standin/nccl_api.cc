// NCCL's entry points.
#include <algorithm>

#include "device/standin/nccl_standin.h"
#include "device/standin/nccl_world.h"

namespace strata::standin {
namespace {

// What every entry point does: one at a time; devices that failed and injected failures first.
template <typename Body>
ncclResult_t Enter(const char* name, Body&& body) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime& runtime = Runtime::Get();
  if (internal::Begin(runtime, name, InCapture::kAllowed) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  return body(NcclWorld::Of(runtime));
}

template <typename Body>
ncclResult_t WithComm(const char* name, ncclComm_t handle, Body&& body) {
  return Enter(name, [&](NcclWorld& world) {
    ncclComm* const comm = world.Find(handle, name);
    return comm == nullptr ? ncclInvalidArgument : body(world, *comm);
  });
}

// For what must be possible when the device has failed.
template <typename Body>
ncclResult_t WithCommOfAnyDevice(const char* name, ncclComm_t handle, Body&& body) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  NcclWorld& world = NcclWorld::Of(Runtime::Get());
  ncclComm* const comm = world.Find(handle, name);
  return comm == nullptr ? ncclInvalidArgument : body(world, *comm);
}

ncclResult_t IssueCall(const char* name, const NcclCall& call, ncclComm_t handle,
                       cudaStream_t stream) {
  return WithComm(name, handle,
                  [&](NcclWorld& world, ncclComm& comm) { return world.Call(comm, call, stream); });
}

bool IsConfig(const ncclConfig_t& config) {
  const ncclConfig_t made = NCCL_CONFIG_INITIALIZER;
  return config.magic == made.magic && config.size == made.size;
}

bool IsBlocking(const ncclConfig_t& config) { return config.blocking != 0; }

}  // namespace

void FailCommunicators(int device, ncclResult_t error) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  NcclWorld::Of(Runtime::Get()).Fail(device, error);
}

void CutOffCommunicator(int device, int n, ncclResult_t error) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  NcclWorld::Of(Runtime::Get()).CutOff(device, n, error);
}

void SetPollsToIssue(int polls) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  NcclWorld::Of(Runtime::Get()).SetPollsToIssue(polls);
}

std::string DescribeWaits() {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  return Runtime::Get().streams().DescribeWaits();
}

}  // namespace strata::standin

using strata::standin::Enter;
using strata::standin::IsBlocking;
using strata::standin::IsConfig;
using strata::standin::IssueCall;
using strata::standin::NcclOp;
using strata::standin::NcclWorld;
using strata::standin::Region;
using strata::standin::Runtime;
using strata::standin::WithComm;
using strata::standin::WithCommOfAnyDevice;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return static_cast<unsigned>(result) < std::size(kTexts) ? kTexts[result] : "unknown result code";
}

const char* ncclGetLastError(ncclComm_t comm) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  return comm == nullptr ? "" : comm->error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return Enter("ncclGetUniqueId", [&](NcclWorld& world) {
    *id = world.MakeId();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return Enter("ncclCommInitRank",
               [&](NcclWorld& world) { return world.Join(comm, size, id, rank, true); });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return Enter("ncclCommInitRankConfig", [&](NcclWorld& world) {
    if (config != nullptr && !IsConfig(*config)) {
      return world.Refuse(nullptr, ncclInvalidArgument, "a config without its initializer");
    }
    return world.Join(comm, size, id, rank, config == nullptr || IsBlocking(*config));
  });
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t* made,
                           ncclConfig_t* config) {
  return WithComm("ncclCommSplit", handle, [&](NcclWorld& world, ncclComm& comm) {
    if (config != nullptr && !IsConfig(*config)) {
      return world.Refuse(&comm, ncclInvalidArgument, "a config without its initializer");
    }
    const bool blocking = config == nullptr ? comm.is_blocking : IsBlocking(*config);
    return world.Split(comm, color, key, blocking, made);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  return WithComm("ncclCommFinalize", handle,
                  [](NcclWorld& world, ncclComm& comm) { return world.Finalize(comm); });
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  return WithComm("ncclCommDestroy", handle,
                  [](NcclWorld& world, ncclComm& comm) { return world.Destroy(comm); });
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  return WithCommOfAnyDevice("ncclCommAbort", handle, [](NcclWorld& world, ncclComm& comm) {
    world.Abort(comm);
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  return WithCommOfAnyDevice("ncclCommGetAsyncError", handle,
                             [&](NcclWorld& world, ncclComm& comm) {
                               *error = world.Poll(comm);
                               return ncclSuccess;
                             });
}

ncclResult_t ncclCommCount(ncclComm_t handle, int* count) {
  return WithComm("ncclCommCount", handle, [&](NcclWorld&, ncclComm& comm) {
    if (comm.clique == nullptr) return ncclInvalidArgument;
    *count = comm.clique->size();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommCuDevice(ncclComm_t handle, int* device) {
  return WithComm("ncclCommCuDevice", handle, [&](NcclWorld&, ncclComm& comm) {
    *device = comm.device;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommUserRank(ncclComm_t handle, int* rank) {
  return WithComm("ncclCommUserRank", handle, [&](NcclWorld&, ncclComm& comm) {
    if (comm.clique == nullptr) return ncclInvalidArgument;
    *rank = comm.rank;
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(ncclComm_t handle, void* buffer, size_t bytes, void** registered) {
  return WithComm("ncclCommRegister", handle, [&](NcclWorld& world, ncclComm& comm) {
    const uint64_t begin = reinterpret_cast<uint64_t>(buffer);
    const Region* const region = Runtime::Get().machine().memory.Find(begin);
    if (region == nullptr || region->kind != Region::Kind::kDevice ||
        region->device != comm.device || !region->Holds(begin, bytes)) {
      return world.Refuse(&comm, ncclInvalidArgument,
                          comm.Name() + " registers what is no memory of its device");
    }
    *registered =
        const_cast<void*>(static_cast<const void*>(&*comm.registered.insert({begin, bytes}).first));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDeregister(ncclComm_t handle, void* registered) {
  return WithComm("ncclCommDeregister", handle, [&](NcclWorld& world, ncclComm& comm) {
    const auto found = std::find_if(
        comm.registered.begin(), comm.registered.end(),
        [&](const auto& range) { return static_cast<const void*>(&range) == registered; });
    if (found == comm.registered.end()) {
      return world.Refuse(&comm, ncclInvalidArgument,
                          comm.Name() + " deregisters what was not registered");
    }
    comm.registered.erase(found);
    return ncclSuccess;
  });
}

ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* pointer) {
  return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclGroupStart() {
  return Enter("ncclGroupStart", [](NcclWorld& world) { return world.StartGroup(); });
}

ncclResult_t ncclGroupEnd() {
  return Enter("ncclGroupEnd", [](NcclWorld& world) { return world.EndGroup(); });
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t sum, ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclAllReduce", {NcclOp::kAllReduce, send, receive, count, type, 0, sum}, comm,
                   stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t sum, ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclReduceScatter",
                   {NcclOp::kReduceScatter, send, receive, count, type, 0, sum}, comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t sum, int root, ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclReduce", {NcclOp::kReduce, send, receive, count, type, root, sum}, comm,
                   stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclAllGather", {NcclOp::kAllGather, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclBroadcast", {NcclOp::kBroadcast, send, receive, count, type, root}, comm,
                   stream);
}

ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclAlltoAll", {NcclOp::kAllToAll, send, receive, count, type}, comm, stream);
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return IssueCall("ncclSend", {NcclOp::kSend, send, nullptr, count, type, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return IssueCall("ncclRecv", {NcclOp::kReceive, nullptr, receive, count, type, peer}, comm,
                   stream);
}

}  // extern "C"
