// One call of NCCL: what it moves, and doing it for all members at once.
#ifndef STRATA_DEVICE_STANDIN_NCCL_CALL_H_
#define STRATA_DEVICE_STANDIN_NCCL_CALL_H_

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/standin/machine.h"

namespace strata::standin {

enum class NcclOp : uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kReduce,
  kAllToAll,
  kSend,
  kReceive,
};

struct NcclCall {
  NcclOp op;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int peer = 0;  // the root, or the other end
  ncclRedOp_t sum = ncclSum;

  bool IsMessage() const { return op == NcclOp::kSend || op == NcclOp::kReceive; }
};

// 0: NCCL knows no such type.
uint64_t BytesOf(ncclDataType_t type);
// "all-reduce of 16 × f32".
std::string TextOf(const NcclCall& call);

// The memory that a rank's part reads and writes; no bytes where it does not.
struct NcclBuffers {
  uint64_t read = 0, read_bytes = 0, write = 0, write_bytes = 0;
};
NcclBuffers BuffersOf(const NcclCall& call, int rank, int size);
// What is wrong with where they lie; empty: nothing. They may coincide where NCCL says so.
std::string WrongOverlap(const NcclCall& call, int rank, int size);
// Whether one writes what the other, done at the same time, reads or writes.
bool Collide(const NcclBuffers& a, const NcclBuffers& b);

// Whether members' calls are the same operation; they differ only in buffers.
bool Agree(const NcclCall& a, const NcclCall& b);

using NcclBytes = std::vector<std::byte>;
// What members in other processes sent; none of those of this one.
using NcclInputs = std::vector<std::optional<NcclBytes>>;
// What a member reads; zeros where its memory is out of bounds.
NcclBytes ReadInput(Machine& machine, OperationId id, const NcclCall& call, int rank, int size);
// Does a collective, by rank; sums add in rank order, each rounded to the type, as NCCL's do.
// Members in other processes do their own.
void RunCollective(Machine& machine, const std::vector<std::optional<NcclCall>>& calls,
                   const std::vector<OperationId>& ids, const NcclInputs& elsewhere);
// By member: the sender, the receiver.
void RunMessage(Machine& machine, const NcclCall& send, const NcclCall& receive,
                const std::vector<OperationId>& ids, const NcclInputs& elsewhere);

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_NCCL_CALL_H_
