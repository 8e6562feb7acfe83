#include "collectives/nccl/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace strata::collectives {

struct NcclGroup {
  ncclComm_t comm = nullptr;
  std::vector<int> ranks;
  int index = 0;
  void* barrier = nullptr;  // one byte, which barriers sum
  int64_t issued = 0;
  Operation last;
};

namespace {

absl::Status CudaStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", cudaGetErrorString(error), " (",
                                          cudaGetErrorName(error),
                                          "); the device may be lost: see the kernel's log"));
}

bool IsError(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

// What a communicator is at: in progress, or how it ended.
ncclResult_t StateOf(ncclComm* comm) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(comm, &state);
  return result == ncclSuccess ? state : result;
}

// In progress is no error: what was asked for is awaited.
absl::Status NcclStatus(ncclResult_t result, ncclComm_t comm, absl::string_view what) {
  if (!IsError(result)) return absl::OkStatus();
  const char* const last = ncclGetLastError(comm);
  std::string text = absl::StrCat(what, ": NCCL reports ", ncclGetErrorString(result));
  if (last != nullptr && *last != '\0') absl::StrAppend(&text, " (", last, ")");
  absl::StrAppend(&text, "; NCCL_DEBUG=WARN tells more");
  switch (result) {
    case ncclRemoteError:
    case ncclSystemError:
      return absl::UnavailableError(text);
    default:
      return absl::InternalError(text);
  }
}

bool Sums(OpKind kind) { return kind == OpKind::kAllReduce || kind == OpKind::kReduceScatter; }

ncclDataType_t TypeOf(DataType type) {
  switch (type) {
    case DataType::kBytes:
      return ncclUint8;
    case DataType::kF32:
      return ncclFloat32;
    case DataType::kF64:
      return ncclFloat64;
    case DataType::kBF16:
      return ncclBfloat16;
    case DataType::kF16:
      return ncclFloat16;
  }
  return ncclUint8;
}

absl::Status CheckRanks(absl::Span<const int> ranks, int own, int size) {
  std::vector<bool> seen(size);
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size || seen[rank]) {
      return absl::InvalidArgumentError(absl::StrCat("a group of ranks ", absl::StrJoin(ranks, " "),
                                                     " in a world of ", size,
                                                     ": they must be distinct and in the world"));
    }
    seen[rank] = true;
  }
  if (!seen[own]) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", own, " makes a group of ranks ",
                                                   absl::StrJoin(ranks, " "), ", without itself"));
  }
  return absl::OkStatus();
}

absl::Status CheckOperation(const Operation& op, int size, int index) {
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(OpName(op.kind), " of ", op.count, " elements: ", why));
  };
  if (op.kind == OpKind::kBarrier) return absl::OkStatus();
  if (op.count < 0) return refuse("a negative count");
  if (Sums(op.kind) && op.type == DataType::kBytes) return refuse("bytes cannot be summed");
  const bool reads = op.kind != OpKind::kBroadcast && op.kind != OpKind::kReceive;
  const bool writes = op.kind != OpKind::kSend;
  if (op.count > 0 && ((reads && op.in == nullptr) || (writes && op.out == nullptr))) {
    return refuse("a buffer is missing");
  }
  if (op.kind == OpKind::kBroadcast || IsPointToPoint(op.kind)) {
    if (op.peer < 0 || op.peer >= size) return refuse(absl::StrCat("there is no member ", op.peer));
  }
  if (IsPointToPoint(op.kind)) {
    if (op.peer == index) return refuse("a message to oneself");
    if (op.tag >= kMaxTag) return refuse(absl::StrCat("there is no tag ", op.tag));
  }
  if ((op.kind == OpKind::kAllToAll || op.kind == OpKind::kRotate) && op.in == op.out) {
    return refuse("it cannot be done in place");
  }
  return absl::OkStatus();
}

// One operation's calls, within an NCCL group.
ncclResult_t Enqueue(const NcclGroup& group, const Operation& op, cudaStream_t stream) {
  const ncclComm_t comm = group.comm;
  const ncclDataType_t type = TypeOf(op.type);
  const size_t count = op.count;
  const int size = static_cast<int>(group.ranks.size());
  switch (op.kind) {
    case OpKind::kAllGather:
      return ncclAllGather(op.in, op.out, count, type, comm, stream);
    case OpKind::kReduceScatter:
      return ncclReduceScatter(op.in, op.out, count, type, ncclSum, comm, stream);
    case OpKind::kAllReduce:
      return ncclAllReduce(op.in, op.out, count, type, ncclSum, comm, stream);
    case OpKind::kBroadcast:
      return ncclBroadcast(op.out, op.out, count, type, op.peer, comm, stream);
    case OpKind::kSend:
      return ncclSend(op.in, count, type, op.peer, comm, stream);
    case OpKind::kReceive:
      return ncclRecv(op.out, count, type, op.peer, comm, stream);
    case OpKind::kBarrier:
      return ncclAllReduce(group.barrier, group.barrier, 1, ncclUint8, ncclSum, comm, stream);
    case OpKind::kAllToAll: {
      const int64_t bytes = op.count * ElementBytes(op.type);
      for (int member = 0; member < size; ++member) {
        const char* const from = static_cast<const char*>(op.in) + member * bytes;
        char* const to = static_cast<char*>(op.out) + member * bytes;
        ncclResult_t result = ncclSend(from, count, type, member, comm, stream);
        if (result == ncclSuccess) result = ncclRecv(to, count, type, member, comm, stream);
        if (result != ncclSuccess) return result;
      }
      return ncclSuccess;
    }
    case OpKind::kRotate: {
      const int next = (group.index + 1) % size, before = (group.index + size - 1) % size;
      const ncclResult_t result = ncclSend(op.in, count, type, next, comm, stream);
      return result != ncclSuccess ? result : ncclRecv(op.out, count, type, before, comm, stream);
    }
  }
  return ncclInvalidArgument;
}

// The time that is left, and pauses between polls: none at first, as most things take
// microseconds, of which a sleep takes many.
class Deadline {
 public:
  explicit Deadline(absl::Duration at_most)
      : begin_(Now()), end_(begin_ + absl::ToDoubleSeconds(at_most)) {}
  bool HasPassed() const { return Now() >= end_; }
  std::chrono::microseconds Pause() {
    if (Now() < begin_ + kSpinSeconds) return std::chrono::microseconds(0);
    const std::chrono::microseconds pause = pause_;
    pause_ = std::min(pause_ * 2, std::chrono::microseconds(1000));
    return pause;
  }

 private:
  static constexpr double kSpinSeconds = 100e-6;
  static double Now() { return common::MonotonicClock().Now(); }
  double begin_, end_;
  std::chrono::microseconds pause_{20};
};

// A byte of zeros.
absl::Status MakeBarrier(void*& barrier) {
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&barrier, 1), "cudaMalloc"));
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags"));
  absl::Status status = CudaStatus(cudaMemsetAsync(barrier, 0, 1, stream), "cudaMemsetAsync");
  status.Update(CudaStatus(cudaStreamSynchronize(stream), "cudaStreamSynchronize"));
  cudaStreamDestroy(stream);
  return status;
}

ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

}  // namespace

ShareBytes ShareOver(Communicator* bootstrap) {
  return [bootstrap](absl::Span<const int> world_ranks,
                     std::string own) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const GroupId group, bootstrap->CreateGroup(world_ranks));
    const auto broadcast = [&](void* data, int64_t bytes) {
      return RunOperation(
          *bootstrap,
          {.kind = OpKind::kBroadcast, .group = group, .count = bytes, .out = data, .peer = 0});
    };
    uint64_t bytes = own.size();
    RETURN_IF_ERROR(broadcast(&bytes, sizeof bytes));
    own.resize(bytes);
    RETURN_IF_ERROR(broadcast(own.data(), static_cast<int64_t>(bytes)));
    return own;
  };
}

NcclCommunicator::NcclCommunicator(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(Options options) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " in a world of ", options.size));
  }
  if (options.size > 1 && !options.share) {
    return absl::InvalidArgumentError("a world of several ranks needs a way to share ids");
  }
  if (const cudaError_t error = cudaSetDevice(options.device); error != cudaSuccess) {
    return absl::UnavailableError(absl::StrCat("CUDA has no device ", options.device, ": ",
                                               cudaGetErrorString(error),
                                               "; nvidia-smi lists those there are"));
  }
  return std::unique_ptr<NcclCommunicator>(new NcclCommunicator(std::move(options)));
}

NcclCommunicator::~NcclCommunicator() {
  Abort(absl::CancelledError("the communicator was destroyed without Close"));
  for (const auto& group : groups_) cudaFree(group->barrier);
}

// Until what a communicator does has ended. Lets others in between polls, so that Abort ends it.
absl::Status NcclCommunicator::Await(ncclComm* comm, absl::string_view what,
                                     absl::Duration at_most) {
  Deadline deadline(at_most);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    RETURN_IF_ERROR(failure_);
    const ncclResult_t state = StateOf(comm);
    if (state != ncclInProgress) return NcclStatus(state, comm, what);
    if (deadline.HasPassed()) {
      return absl::DeadlineExceededError(absl::StrCat(what, " has not ended within ",
                                                      absl::FormatDuration(at_most),
                                                      ": a member is late, dead or out of reach"));
    }
    failed_.wait_for(lock, deadline.Pause());
  }
}

// What has begun becomes a group, or is aborted. NCCL tells the communicator that a split makes
// only when the parent is no longer in progress.
absl::StatusOr<GroupId> NcclCommunicator::Form(std::unique_ptr<NcclGroup> group, ncclComm* parent,
                                               absl::Status status) {
  const std::string what =
      absl::StrCat("forming a group of ranks ", absl::StrJoin(group->ranks, " "));
  if (status.ok() && parent != nullptr) status = Await(parent, what, options_.timeout);
  if (status.ok()) status = Await(group->comm, what, options_.timeout);
  if (status.ok()) status = MakeBarrier(group->barrier);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (status.ok()) status = failure_;
  if (status.ok()) {
    groups_.push_back(std::move(group));
    return GroupId{static_cast<int32_t>(groups_.size()) - 1};
  }
  if (parent != nullptr) AbortAll(status);  // and with the parent what it was split into
  if (group->comm != nullptr) ncclCommAbort(group->comm);
  cudaFree(group->barrier);
  unformed_.push_back(std::move(group));
  return status;
}

absl::StatusOr<GroupId> NcclCommunicator::CreateGroup(absl::Span<const int> world_ranks) {
  RETURN_IF_ERROR(CheckRanks(world_ranks, rank(), size()));
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(options_.device), "cudaSetDevice"));
  auto group = std::make_unique<NcclGroup>();
  group->ranks.assign(world_ranks.begin(), world_ranks.end());
  const auto own = std::find(world_ranks.begin(), world_ranks.end(), rank());
  group->index = static_cast<int>(own - world_ranks.begin());
  ncclUniqueId id{};
  std::string bytes;
  if (group->index == 0) {
    RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id), nullptr, "making a group's id"));
    bytes.assign(id.internal, sizeof id.internal);
  }
  if (world_ranks.size() > 1) {
    ASSIGN_OR_RETURN(bytes, options_.share(world_ranks, std::move(bytes)));
  }
  if (bytes.size() != sizeof id.internal) {
    return absl::InvalidArgumentError(absl::StrCat("a group's id has ", sizeof id.internal,
                                                   " bytes, ", bytes.size(), " were shared"));
  }
  std::memcpy(id.internal, bytes.data(), bytes.size());
  ncclConfig_t config = NonBlocking();
  const ncclResult_t begun = ncclCommInitRankConfig(
      &group->comm, static_cast<int>(world_ranks.size()), id, group->index, &config);
  return Form(std::move(group), nullptr, NcclStatus(begun, nullptr, "joining a group"));
}

absl::StatusOr<GroupId> NcclCommunicator::Duplicate(GroupId id) {
  RETURN_IF_ERROR(CudaStatus(cudaSetDevice(options_.device), "cudaSetDevice"));
  auto group = std::make_unique<NcclGroup>();
  ncclComm* parent = nullptr;
  absl::Status begun;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    RETURN_IF_ERROR(failure_);
    RETURN_IF_ERROR(CheckGroup(id));
    const NcclGroup& from = *groups_[id.value];
    group->ranks = from.ranks;
    group->index = from.index;
    parent = from.comm;
    ncclConfig_t config = NonBlocking();
    begun = NcclStatus(ncclCommSplit(parent, 0, group->index, &group->comm, &config), parent,
                       "duplicating a group");
  }
  return Form(std::move(group), parent, begun);
}

absl::Status NcclCommunicator::CheckGroup(GroupId group) const {
  if (group.value >= 0 && group.value < static_cast<int>(groups_.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("there is no group ", group.value));
}

int NcclCommunicator::GroupSize(GroupId group) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(groups_[group.value]->ranks.size());
}

int NcclCommunicator::GroupIndex(GroupId group) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return groups_[group.value]->index;
}

absl::Status NcclCommunicator::Register(GroupId group, void* buffer, int64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(failure_);
  RETURN_IF_ERROR(CheckGroup(group));
  void* handle = nullptr;  // ends with the communicator
  ncclComm* const comm = groups_[group.value]->comm;
  return NcclStatus(ncclCommRegister(comm, buffer, bytes, &handle), comm, "registering memory");
}

absl::Status NcclCommunicator::IssueTogether(absl::Span<const Operation> operations,
                                             cudaStream_t stream) {
  ncclResult_t result = ncclSuccess;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    RETURN_IF_ERROR(failure_);
    for (const Operation& op : operations) {
      RETURN_IF_ERROR(CheckGroup(op.group));
      const NcclGroup& group = *groups_[op.group.value];
      RETURN_IF_ERROR(CheckOperation(op, static_cast<int>(group.ranks.size()), group.index));
    }
    RETURN_IF_ERROR(CudaStatus(cudaSetDevice(options_.device), "cudaSetDevice"));
    ncclComm* last = nullptr;
    result = ncclGroupStart();
    for (const Operation& op : operations) {
      NcclGroup& group = *groups_[op.group.value];
      last = group.comm;
      if (!IsError(result)) result = Enqueue(group, op, stream);
      ++group.issued;
      group.last = op;
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (!IsError(result)) result = ended;
    if (IsError(result)) {  // other members may have got further: they no longer agree
      Fail(NcclStatus(result, last, "issuing an operation"));
      return failure_;
    }
  }
  if (result == ncclSuccess) return absl::OkStatus();
  for (const Operation& op : operations) {
    const absl::Status status = Await(CommOf(op.group), "issuing an operation", options_.timeout);
    if (status.ok()) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    Fail(status);
    return failure_;
  }
  return absl::OkStatus();
}

ncclComm* NcclCommunicator::CommOf(GroupId group) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return groups_[group.value]->comm;
}

absl::Status NcclCommunicator::Check() {
  const std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(failure_);
  for (const auto& group : groups_) {
    const ncclResult_t state = StateOf(group->comm);
    if (!IsError(state)) continue;
    Fail(NcclStatus(state, group->comm,
                    absl::StrCat("the group of ranks ", absl::StrJoin(group->ranks, " "))));
    return failure_;
  }
  return absl::OkStatus();
}

absl::Status NcclCommunicator::Wait(cudaStream_t stream, absl::Duration at_most) {
  Deadline deadline(at_most);
  for (;;) {
    const cudaError_t reached = cudaStreamQuery(stream);
    if (reached != cudaSuccess && reached != cudaErrorNotReady) {
      Abort(CudaStatus(reached, "cudaStreamQuery"));
    }
    if (const absl::Status status = Check(); !status.ok()) {
      Abort(status);
      return status;
    }
    if (reached == cudaSuccess) return absl::OkStatus();
    if (deadline.HasPassed()) {
      Abort(absl::DeadlineExceededError(absl::StrCat(
          "a stream of rank ", rank(), " has not ended within ", absl::FormatDuration(at_most),
          ": a member is late, dead or has issued other operations; compare with the other ranks: ",
          Describe())));
    }
    std::unique_lock<std::mutex> lock(mutex_);
    RETURN_IF_ERROR(failure_);
    failed_.wait_for(lock, deadline.Pause());
  }
}

void NcclCommunicator::Fail(absl::Status status) {
  if (!failure_.ok()) return;
  failure_ = std::move(status);
  failed_.notify_all();
}

void NcclCommunicator::AbortAll(absl::Status status) {
  Fail(std::move(status));  // before a stream goes on
  if (std::exchange(is_ended_, true)) return;
  for (const auto& group : groups_) ncclCommAbort(group->comm);
}

void NcclCommunicator::Abort(absl::Status status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  AbortAll(std::move(status));
}

absl::Status NcclCommunicator::Close(absl::Duration at_most) {
  std::vector<ncclComm*> comms;
  absl::Status status;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) {
      AbortAll(failure_);
      return failure_;
    }
    for (const auto& group : groups_) {
      comms.push_back(group->comm);
      status.Update(NcclStatus(ncclCommFinalize(group->comm), group->comm, "closing a group"));
    }
  }
  for (ncclComm* const comm : comms) {
    if (status.ok()) status = Await(comm, "closing a group", at_most);
  }
  if (!status.ok()) {
    Abort(status);
    return status;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  RETURN_IF_ERROR(failure_);
  failure_ = absl::FailedPreconditionError("the communicator was closed");
  is_ended_ = true;
  for (ncclComm* const comm : comms) {
    status.Update(NcclStatus(ncclCommDestroy(comm), nullptr, "ending a group"));
  }
  return status;
}

std::string NcclCommunicator::Describe() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const auto& group : groups_) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", "group of ranks ",
                    absl::StrJoin(group->ranks, " "), ": ", group->issued, " operations issued");
    if (group->issued == 0) continue;
    const int64_t bytes = group->last.count * ElementBytes(group->last.type);
    absl::StrAppend(&text, ", the last ", OpName(group->last.kind), " of ", bytes, " bytes");
  }
  return text;
}

}  // namespace strata::collectives
