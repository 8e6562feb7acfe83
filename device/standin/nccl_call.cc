#include "device/standin/nccl_call.h"

#include <algorithm>
#include <cstring>

#include "device/standin/access.h"

namespace strata::standin {
namespace {

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

const char* NameOf(NcclOp op) {
  switch (op) {
    case NcclOp::kAllReduce:
      return "all-reduce";
    case NcclOp::kReduceScatter:
      return "reduce-scatter";
    case NcclOp::kAllGather:
      return "all-gather";
    case NcclOp::kBroadcast:
      return "broadcast";
    case NcclOp::kReduce:
      return "reduce";
    case NcclOp::kAllToAll:
      return "all-to-all";
    case NcclOp::kSend:
      return "send";
    case NcclOp::kReceive:
      return "receive";
  }
  return "?";
}

const char* NameOf(ncclDataType_t type) {
  constexpr const char* kNames[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
                                    "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
  return BytesOf(type) == 0 ? "no type" : kNames[type];
}

template <typename T, typename Add>
void AddEach(std::byte* into, const std::byte* from, uint64_t bytes, Add add) {
  for (uint64_t at = 0; at < bytes; at += sizeof(T)) {
    T a, b;
    std::memcpy(&a, into + at, sizeof a);
    std::memcpy(&b, from + at, sizeof b);
    const T sum = add(a, b);
    std::memcpy(into + at, &sum, sizeof sum);
  }
}

template <typename T>
void AddPlain(std::byte* into, const std::byte* from, uint64_t bytes) {
  AddEach<T>(into, from, bytes, [](T a, T b) { return static_cast<T>(a + b); });
}

void AddInto(ncclDataType_t type, std::byte* into, const std::byte* from, uint64_t bytes) {
  switch (type) {
    case ncclFloat32:
      return AddPlain<float>(into, from, bytes);
    case ncclFloat64:
      return AddPlain<double>(into, from, bytes);
    case ncclBfloat16:
      return AddEach<__nv_bfloat16>(into, from, bytes, [](__nv_bfloat16 a, __nv_bfloat16 b) {
        return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
      });
    case ncclFloat16:
      return AddEach<__half>(into, from, bytes, [](__half a, __half b) {
        return __float2half_rn(__half2float(a) + __half2float(b));
      });
    case ncclInt32:
    case ncclUint32:
      return AddPlain<uint32_t>(into, from, bytes);
    case ncclInt64:
    case ncclUint64:
      return AddPlain<uint64_t>(into, from, bytes);
    default:
      return AddPlain<uint8_t>(into, from, bytes);
  }
}

bool Overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes && a_bytes != 0 && b_bytes != 0;
}

// What rank `to` gets of them, `part` bytes each.
NcclBytes ResultOf(const NcclCall& call, const std::vector<NcclBytes>& inputs, int to,
                   uint64_t part) {
  NcclBytes result;
  const auto append = [&](const NcclBytes& from, uint64_t offset) {
    result.insert(result.end(), from.begin() + offset, from.begin() + offset + part);
  };
  switch (call.op) {
    case NcclOp::kBroadcast:
      return inputs[call.peer];
    case NcclOp::kAllGather:
      for (const NcclBytes& input : inputs) append(input, 0);
      return result;
    case NcclOp::kAllToAll:
      for (const NcclBytes& input : inputs) append(input, to * part);
      return result;
    default:
      break;
  }
  const uint64_t offset = call.op == NcclOp::kReduceScatter ? to * part : 0;
  append(inputs[0], offset);
  for (size_t from = 1; from < inputs.size(); ++from) {
    AddInto(call.type, result.data(), inputs[from].data() + offset, part);
  }
  return result;
}

}  // namespace

uint64_t BytesOf(ncclDataType_t type) {
  constexpr uint8_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return static_cast<unsigned>(type) < std::size(kBytes) ? kBytes[type] : 0;
}

std::string TextOf(const NcclCall& call) {
  std::string text = NameOf(call.op);
  text += " of " + std::to_string(call.count) + " × " + NameOf(call.type);
  if (call.op == NcclOp::kBroadcast) text += " from rank " + std::to_string(call.peer);
  if (call.op == NcclOp::kReduce) text += " to rank " + std::to_string(call.peer);
  return text;
}

NcclBuffers BuffersOf(const NcclCall& call, int rank, int size) {
  const uint64_t part = call.count * BytesOf(call.type), whole = part * size;
  NcclBuffers buffers{AddressOf(call.send), part, AddressOf(call.receive), part};
  switch (call.op) {
    case NcclOp::kAllReduce:
      break;
    case NcclOp::kReduceScatter:
      buffers.read_bytes = whole;
      break;
    case NcclOp::kAllGather:
      buffers.write_bytes = whole;
      break;
    case NcclOp::kAllToAll:
      buffers.read_bytes = buffers.write_bytes = whole;
      break;
    case NcclOp::kBroadcast:
      if (rank != call.peer) buffers.read_bytes = 0;
      break;
    case NcclOp::kReduce:
      if (rank != call.peer) buffers.write_bytes = 0;
      break;
    case NcclOp::kSend:
      buffers.write_bytes = 0;
      break;
    case NcclOp::kReceive:
      buffers.read_bytes = 0;
      break;
  }
  return buffers;
}

std::string WrongOverlap(const NcclCall& call, int rank, int size) {
  const NcclBuffers b = BuffersOf(call, rank, size);
  if (!Overlap(b.read, b.read_bytes, b.write, b.write_bytes)) return "";
  const uint64_t own = rank * call.count * BytesOf(call.type);
  switch (call.op) {
    case NcclOp::kAllReduce:
    case NcclOp::kBroadcast:
    case NcclOp::kReduce:
      return b.read == b.write ? "" : "has buffers that overlap and are not the same";
    case NcclOp::kReduceScatter:
      return b.write == b.read + own ? "" : "writes a part of its input that is not its own";
    case NcclOp::kAllGather:
      return b.read == b.write + own ? "" : "reads a part of its output that is not its own";
    default:
      return "cannot be done in place";
  }
}

bool Collide(const NcclBuffers& a, const NcclBuffers& b) {
  return Overlap(a.write, a.write_bytes, b.write, b.write_bytes) ||
         Overlap(a.write, a.write_bytes, b.read, b.read_bytes) ||
         Overlap(a.read, a.read_bytes, b.write, b.write_bytes);
}

bool Agree(const NcclCall& a, const NcclCall& b) {
  if (a.count != b.count || a.type != b.type) return false;
  if (a.IsMessage()) return true;
  return a.op == b.op && a.peer == b.peer && a.sum == b.sum;
}

NcclBytes ReadInput(Machine& machine, OperationId id, const NcclCall& call, int rank, int size) {
  const NcclBuffers buffers = BuffersOf(call, rank, size);
  NcclBytes input(buffers.read_bytes);
  if (buffers.read_bytes == 0) return input;
  const std::byte* const from = Reach(machine, id, call.send, buffers.read_bytes, false);
  if (from != nullptr) std::memcpy(input.data(), from, buffers.read_bytes);
  return input;
}

void RunCollective(Machine& machine, const std::vector<std::optional<NcclCall>>& calls,
                   const std::vector<OperationId>& ids, const NcclInputs& elsewhere) {
  const int size = static_cast<int>(calls.size());
  std::vector<NcclBytes> inputs;
  for (int rank = 0; rank < size; ++rank) {
    inputs.push_back(elsewhere[rank].has_value()
                         ? *elsewhere[rank]
                         : ReadInput(machine, ids[rank], *calls[rank], rank, size));
  }
  for (int rank = 0; rank < size; ++rank) {
    const NcclCall& call = *calls[rank];
    const NcclBuffers buffers = BuffersOf(call, rank, size);
    if (buffers.write_bytes == 0 || elsewhere[rank].has_value()) continue;
    std::byte* const to = Reach(machine, ids[rank], call.receive, buffers.write_bytes, true);
    if (to == nullptr) continue;
    const NcclBytes result = ResultOf(call, inputs, rank, call.count * BytesOf(call.type));
    std::memcpy(to, result.data(), buffers.write_bytes);
  }
}

void RunMessage(Machine& machine, const NcclCall& send, const NcclCall& receive,
                const std::vector<OperationId>& ids, const NcclInputs& elsewhere) {
  const uint64_t bytes = send.count * BytesOf(send.type);
  if (bytes == 0) return;
  const std::byte* const from = elsewhere[0].has_value()
                                    ? elsewhere[0]->data()
                                    : Reach(machine, ids[0], send.send, bytes, false);
  if (elsewhere[1].has_value()) return;
  std::byte* const to = Reach(machine, ids[1], receive.receive, bytes, true);
  if (from != nullptr && to != nullptr) std::memmove(to, from, bytes);
}

}  // namespace strata::standin
