#include "collectives/communicator.h"

#include "collectives/pieces.h"
#include "common/status_macros.h"

namespace strata::collectives {

int64_t ElementBytes(DataType type) {
  switch (type) {
    case DataType::kBytes:
      return 1;
    case DataType::kBF16:
    case DataType::kF16:
      return 2;
    case DataType::kF32:
      return 4;
    case DataType::kF64:
      return 8;
  }
  return 0;
}

const char* OpName(OpKind kind) {
  switch (kind) {
    case OpKind::kAllGather:
      return "all-gather";
    case OpKind::kReduceScatter:
      return "reduce-scatter";
    case OpKind::kAllReduce:
      return "all-reduce";
    case OpKind::kBroadcast:
      return "broadcast";
    case OpKind::kSend:
      return "send";
    case OpKind::kReceive:
      return "receive";
    case OpKind::kBarrier:
      return "barrier";
    case OpKind::kAllToAll:
      return "all-to-all";
    case OpKind::kRotate:
      return "rotate";
  }
  return "unknown operation";
}

int64_t ScratchBytes(OpKind kind, DataType type, int64_t count, int group_size) {
  if (kind != OpKind::kReduceScatter && kind != OpKind::kAllReduce) return 0;
  return (group_size - 1) * ScratchStride(kind, type, count, group_size);
}

absl::Status RunOperation(Communicator& communicator, const Operation& operation) {
  ASSIGN_OR_RETURN(const OperationId id, communicator.Post(operation));
  for (;;) {
    const bool more = communicator.Progress();
    ASSIGN_OR_RETURN(const bool done, communicator.Test(id));
    if (done) return absl::OkStatus();
    if (!more) communicator.Wait(absl::Milliseconds(100));
  }
}

}  // namespace strata::collectives
