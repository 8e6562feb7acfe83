// Memory: allocation, copies, fills. Copies of pageable host memory read it at the call; pinned
// memory is read and written when the copy runs.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "device/standin/access.h"
#include "device/standin/managed.h"
#include "device/standin/runtime.h"

namespace strata::standin {
namespace {

uint64_t AddressOf(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

// What a copy will read of pinned memory, at the time of the call: the host may not change it
// before the copy has run. Operations may, ordered before it.
class SourceWatch {
 public:
  SourceWatch(Runtime& runtime, const void* from, uint64_t bytes)
      : runtime_(runtime), from_(from), bytes_(bytes) {
    const Region* const region = Find();
    if (region == nullptr) return;
    changes_ = region->changes + HostTurns();
    hash_ = Hash();
  }
  void Judge(OperationId id) const {
    const Region* const region = Find();
    if (hash_ == 0 || region == nullptr || region->changes + HostTurns() != changes_ ||
        Hash() == hash_) {
      return;
    }
    runtime_.machine().checker.Report(FindingKind::kHostWrite, AccessorOf(id).stamp,
                                      "the host changed " + std::to_string(bytes_) + " bytes at " +
                                          runtime_.machine().memory.Locate(AddressOf(from_)) +
                                          " before they were read");
  }

 private:
  // What the stream may have waited for, so that the host's change came first.
  uint64_t HostTurns() const {
    return runtime_.host_functions_run + runtime_.streams().values_seen();
  }
  // The pinned memory that is read as one piece; null: other memory.
  const Region* Find() const {
    const Region* const region = runtime_.machine().memory.Find(AddressOf(from_));
    const bool watched = region != nullptr && region->kind >= Region::Kind::kPinned &&
                         region->Holds(AddressOf(from_), bytes_) &&
                         runtime_.machine().options.check;
    return watched ? region : nullptr;
  }
  size_t Hash() const {
    return std::hash<std::string_view>()({static_cast<const char*>(from_), bytes_}) | 1;
  }

  Runtime& runtime_;
  const void* from_;
  uint64_t bytes_, changes_ = 0;
  size_t hash_ = 0;  // 0: nothing is watched
};

struct Range {
  void* to;
  const void* from;
  uint64_t pitch_to, pitch_from, width, rows;
};

void Copy(Machine& machine, OperationId id, const Range& range, const std::byte* staged) {
  for (uint64_t row = 0; row < range.rows; ++row) {
    const std::byte* const from =
        staged != nullptr
            ? staged + row * range.width
            : Reach(machine, id, static_cast<const std::byte*>(range.from) + row * range.pitch_from,
                    range.width, false);
    std::byte* const to = Reach(
        machine, id, static_cast<std::byte*>(range.to) + row * range.pitch_to, range.width, true);
    if (from != nullptr && to != nullptr) std::memmove(to, from, range.width);
  }
}

// Whether the memory lies where `kind` says.
bool Matches(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

cudaError_t CopyOn(Runtime& runtime, const Range& range, cudaMemcpyKind kind, Stream& stream) {
  Machine& machine = runtime.machine();
  if (range.width * range.rows == 0) return cudaSuccess;
  const bool to_device = machine.memory.IsDevice(AddressOf(range.to)),
             from_device = machine.memory.IsDevice(AddressOf(range.from));
  if (range.to == nullptr || range.from == nullptr || !Matches(kind, to_device, from_device)) {
    return cudaErrorInvalidValue;
  }
  const bool pageable_from = !from_device && machine.memory.Find(AddressOf(range.from)) == nullptr;
  const bool pageable_to = !to_device && machine.memory.Find(AddressOf(range.to)) == nullptr;
  std::shared_ptr<std::vector<std::byte>> staged;
  if (pageable_from && stream.capture == nullptr) {
    staged = std::make_shared<std::vector<std::byte>>(range.width * range.rows);
    for (uint64_t row = 0; row < range.rows; ++row) {
      std::memcpy(staged->data() + row * range.width,
                  static_cast<const std::byte*>(range.from) + row * range.pitch_from, range.width);
    }
  }
  const char* const name = to_device
                               ? (from_device ? "a copy on the device" : "a copy to the device")
                               : (from_device ? "a copy to the host" : "a copy on the host");
  runtime.EnqueueMade(stream, name, [&runtime, range, staged]() -> Made {
    // Of rows apart, the last ends with its width.
    const uint64_t bytes = range.pitch_from * (range.rows - 1) + range.width;
    const SourceWatch watch(runtime, range.from, bytes);
    return {.run = [&runtime, range, staged, watch](OperationId id) {
      watch.Judge(id);
      Copy(runtime.machine(), id, range, staged == nullptr ? nullptr : staged->data());
    }};
  });
  if (pageable_to && stream.capture == nullptr) {
    runtime.streams().RunUntil(runtime.streams().End(stream));
  }
  return runtime.faults().sticky();
}

cudaError_t FillOn(Runtime& runtime, void* to, int value, size_t bytes, Stream& stream) {
  Machine& machine = runtime.machine();
  if (bytes == 0) return cudaSuccess;
  if (machine.memory.Find(AddressOf(to)) == nullptr) return cudaErrorInvalidValue;
  runtime.Enqueue(stream, "a fill", [&machine, to, value, bytes](OperationId id) {
    Region* const region = machine.memory.Find(AddressOf(to));
    std::byte* const at = Reach(machine, id, to, bytes, true);
    if (at == nullptr) return;
    // Fills are kernels, copies are not.
    if (region != nullptr) {
      UsePages(machine, *region, AddressOf(to), bytes, machine.operations.DeviceOf(id),
               AccessorOf(id));
    }
    std::memset(at, value, bytes);
  });
  return cudaSuccess;
}

// `what` on a stream, in a call named `name`.
template <typename Body>
cudaError_t OnStream(const char* name, const char* what, cudaStream_t handle, Body&& body) {
  return Call(name, InCapture::kAllowed, [&](Runtime& runtime) -> cudaError_t {
    Stream* const stream = runtime.Find(handle, what);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(runtime, *stream);
  });
}

cudaError_t AllocateHost(const char* name, void** pointer, size_t bytes) {
  return Call(name, InCapture::kForbidden, [&](Runtime& runtime) {
    if (bytes == 0) {
      *pointer = nullptr;
      return cudaSuccess;
    }
    *pointer = runtime.machine().memory.AllocatePinned(bytes)->data;
    return cudaSuccess;
  });
}

cudaError_t Free(const char* name, void* pointer, bool device) {
  return Call(name, InCapture::kForbidden, [&](Runtime& runtime) {
    if (pointer == nullptr) return cudaSuccess;
    runtime.streams().RunAll();  // it waits for the device
    return runtime.machine().memory.Free(AddressOf(pointer), device) ? cudaSuccess
                                                                     : cudaErrorInvalidValue;
  });
}

}  // namespace
}  // namespace strata::standin

using strata::standin::Accessor;
using strata::standin::AddressOf;
using strata::standin::Call;
using strata::standin::Checker;
using strata::standin::InCapture;
using strata::standin::OnStream;
using strata::standin::OperationId;
using strata::standin::Region;
using strata::standin::Runtime;
using strata::standin::Stamp;
using strata::standin::Stream;

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return Call("cudaMalloc", InCapture::kForbidden, [&](Runtime& runtime) {
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    const Region* const region =
        runtime.machine().memory.Allocate(bytes, strata::standin::CurrentDevice());
    if (region == nullptr) return cudaErrorMemoryAllocation;
    *pointer = reinterpret_cast<void*>(region->begin);
    return cudaSuccess;
  });
}

cudaError_t cudaFree(void* pointer) { return strata::standin::Free("cudaFree", pointer, true); }

// The memory is there at once, but only what is ordered behind the stream's place may use it.
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t handle) {
  return OnStream(
      "cudaMallocAsync", "an allocation", handle, [&](Runtime& runtime, Stream& stream) {
        *pointer = nullptr;
        if (stream.capture != nullptr) return cudaErrorNotSupported;
        if (bytes == 0) return cudaSuccess;
        auto& machine = runtime.machine();
        const Region* const region = machine.memory.Allocate(bytes, stream.device);
        if (region == nullptr) return cudaErrorMemoryAllocation;
        const uint64_t begin = region->begin;
        *pointer = reinterpret_cast<void*>(begin);
        runtime.Enqueue(stream, "an allocation", [&machine, begin, bytes](OperationId id) {
          Region* const own = machine.memory.Find(begin);
          if (own == nullptr || !machine.options.check) return;
          Accessor who = strata::standin::AccessorOf(id);
          machine.checker.Touch(own->shadow, 0, bytes, Checker::Access::kWrite, who, {own->name});
          who.stamp.flags |= Stamp::kUnwritten;
          machine.checker.Mark(own->shadow, 0, bytes, who.stamp);
        });
        return cudaSuccess;
      });
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t handle) {
  return OnStream(
      "cudaFreeAsync", "a release of memory", handle, [&](Runtime& runtime, Stream& stream) {
        if (stream.capture != nullptr) return cudaErrorNotSupported;
        auto& machine = runtime.machine();
        const Region* const region = machine.memory.Find(AddressOf(pointer));
        if (region == nullptr || region->begin != AddressOf(pointer) ||
            region->kind != Region::Kind::kDevice) {
          return cudaErrorInvalidValue;
        }
        runtime.Enqueue(
            stream, "a release of memory",
            [&machine, pointer, bytes = region->bytes](OperationId id) {
              if (strata::standin::Reach(machine, id, pointer, bytes, true) != nullptr) {
                machine.memory.Free(AddressOf(pointer), true);
              }
            });
        return cudaSuccess;
      });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return strata::standin::AllocateHost("cudaMallocHost", pointer, bytes);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return strata::standin::AllocateHost("cudaHostAlloc", pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  return strata::standin::Free("cudaFreeHost", pointer, false);
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  return Call("cudaHostRegister", InCapture::kForbidden, [&](Runtime& runtime) {
    if (pointer == nullptr || bytes == 0) return cudaErrorInvalidValue;
    auto& memory = runtime.machine().memory;
    const Region* const region = memory.Find(AddressOf(pointer));
    if (region != nullptr && region->Holds(AddressOf(pointer), 1)) {
      return cudaErrorHostMemoryAlreadyRegistered;
    }
    memory.Register(pointer, bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  return Call("cudaHostUnregister", InCapture::kForbidden, [&](Runtime& runtime) {
    auto& memory = runtime.machine().memory;
    const Region* const region = memory.Find(AddressOf(pointer));
    if (region == nullptr || region->kind != Region::Kind::kRegistered) {
      return cudaErrorHostMemoryNotRegistered;
    }
    runtime.streams().RunAll();
    return memory.Free(AddressOf(pointer), false) ? cudaSuccess : cudaErrorHostMemoryNotRegistered;
  });
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  return Call("cudaHostGetDevicePointer", InCapture::kAllowed, [&](Runtime& runtime) {
    if (runtime.machine().memory.Find(AddressOf(host)) == nullptr) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  return OnStream("cudaMemcpyAsync", "a copy", handle, [&](Runtime& runtime, Stream& stream) {
    return strata::standin::CopyOn(runtime, {to, from, bytes, bytes, bytes, 1}, kind, stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t pitch_to, const void* from, size_t pitch_from,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t handle) {
  return OnStream("cudaMemcpy2DAsync", "a copy", handle, [&](Runtime& runtime, Stream& stream) {
    if (width > pitch_to || width > pitch_from) return cudaErrorInvalidPitchValue;
    return strata::standin::CopyOn(runtime, {to, from, pitch_to, pitch_from, width, height}, kind,
                                   stream);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  return Call("cudaMemcpy", InCapture::kForbidden, [&](Runtime& runtime) {
    Stream* const stream = runtime.Find(nullptr, "a copy");
    runtime.streams().RunAll();
    const cudaError_t error =
        strata::standin::CopyOn(runtime, {to, from, bytes, bytes, bytes, 1}, kind, *stream);
    runtime.streams().RunAll();
    return error != cudaSuccess ? error : runtime.faults().sticky();
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  return OnStream("cudaMemsetAsync", "a fill", handle, [&](Runtime& runtime, Stream& stream) {
    return strata::standin::FillOn(runtime, to, value, bytes, stream);
  });
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  return Call("cudaMemset", InCapture::kForbidden, [&](Runtime& runtime) {
    Stream* const stream = runtime.Find(nullptr, "a fill");
    runtime.streams().RunAll();
    const cudaError_t error = strata::standin::FillOn(runtime, to, value, bytes, *stream);
    runtime.streams().RunAll();
    return error != cudaSuccess ? error : runtime.faults().sticky();
  });
}

// Stream-ordered memory comes from one pool, which keeps nothing: there is nothing to set.
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  return Call("cudaDeviceGetDefaultMemPool", InCapture::kAllowed, [&](Runtime& runtime) {
    *pool = reinterpret_cast<cudaMemPool_t>(&runtime);
    const bool exists = device >= 0 && device < runtime.machine().options.device_count;
    return exists ? cudaSuccess : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr, void*) {
  return Call("cudaMemPoolSetAttribute", InCapture::kAllowed, [&](Runtime& runtime) {
    return pool == reinterpret_cast<cudaMemPool_t>(&runtime) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes,
                                    size_t offset, cudaMemcpyKind kind, cudaStream_t handle) {
  return OnStream(
      "cudaMemcpyToSymbolAsync", "a copy", handle, [&](Runtime& runtime, Stream& stream) {
        const uint64_t address = runtime.FindVariable(symbol);
        if (address == 0) return cudaErrorInvalidSymbol;
        return strata::standin::CopyOn(
            runtime, {reinterpret_cast<void*>(address + offset), from, bytes, bytes, bytes, 1},
            kind, stream);
      });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t handle) {
  return OnStream(
      "cudaMemcpyFromSymbolAsync", "a copy", handle, [&](Runtime& runtime, Stream& stream) {
        const uint64_t address = runtime.FindVariable(symbol);
        if (address == 0) return cudaErrorInvalidSymbol;
        return strata::standin::CopyOn(
            runtime, {to, reinterpret_cast<void*>(address + offset), bytes, bytes, bytes, 1}, kind,
            stream);
      });
}

cudaError_t cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return Call("cudaGetSymbolAddress", InCapture::kAllowed, [&](Runtime& runtime) {
    const uint64_t address = runtime.FindVariable(symbol);
    *pointer = reinterpret_cast<void*>(address);
    return address == 0 ? cudaErrorInvalidSymbol : cudaSuccess;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return Call("cudaMemGetInfo", InCapture::kAllowed, [&](Runtime& runtime) {
    const auto& memory = runtime.machine().memory;
    *total = memory.capacity_bytes();
    *free = memory.capacity_bytes() - memory.used_bytes(strata::standin::CurrentDevice());
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return Call("cudaPointerGetAttributes", InCapture::kAllowed, [&](Runtime& runtime) {
    const Region* const region = runtime.machine().memory.Find(AddressOf(pointer));
    void* const address = const_cast<void*>(pointer);
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;  // cudaInvalidDeviceId
    if (region == nullptr) {
      attributes->hostPointer = address;
      return cudaSuccess;
    }
    const bool managed = region->kind == Region::Kind::kManaged;
    const bool device = region->kind == Region::Kind::kDevice;
    attributes->type = managed  ? cudaMemoryTypeManaged
                       : device ? cudaMemoryTypeDevice
                                : cudaMemoryTypeHost;
    attributes->device = device ? region->device : 0;
    attributes->devicePointer = address;
    attributes->hostPointer = device ? nullptr : address;
    return cudaSuccess;
  });
}

}  // extern "C"
