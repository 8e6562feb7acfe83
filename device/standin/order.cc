#include "device/standin/order.h"

#include <utility>

#include "device/standin/access.h"
#include "device/standin/runtime.h"

namespace strata::standin {

bool IsBefore(const Piece& a, const Piece& b) {
  const size_t stream = a.stream;
  return stream < b.clock.size() && b.clock[stream] >= a.clock[stream];
}

bool AreConcurrent(const Piece& a, const Piece& b) { return !IsBefore(a, b) && !IsBefore(b, a); }

void SetLabel(std::string text, int64_t turn) { ThreadLabel() = {std::move(text), turn}; }

std::vector<Piece> TakePieces() {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  return Runtime::Get().streams().TakePieces();
}

void DeclareHostWait(CUstream_st* thread, CUstream_st* stream) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime& runtime = Runtime::Get();
  Stream* const waits = runtime.Find(thread, "a host thread's wait");
  Stream* const other = runtime.Find(stream, "a host thread's wait");
  if (waits != nullptr && other != nullptr) {
    runtime.streams().Wait(*waits, runtime.streams().End(*other));
  }
}

void DeclareHostValue(CUstream_st* thread, const uint32_t* at, uint32_t value) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime& runtime = Runtime::Get();
  Stream* const found = runtime.Find(thread, "a host thread's value");
  if (found != nullptr) runtime.streams().NoteWriter(at, value, runtime.streams().End(*found));
}

void DeclareHostAccess(CUstream_st* thread, const void* at, uint64_t bytes, bool writes) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime& runtime = Runtime::Get();
  Stream* const found = runtime.Find(thread, "a host thread's access");
  if (found == nullptr || bytes == 0) return;
  runtime.Enqueue(*found, "host work", [&runtime, at, bytes, writes](OperationId id) {
    Machine& machine = runtime.machine();
    const uint64_t address = reinterpret_cast<uint64_t>(at);
    Region* const region = machine.memory.Find(address);
    if (region == nullptr || !machine.options.check) return;  // none that the device reaches
    if (!region->Holds(address, bytes)) {
      Reach(machine, id, at, bytes, writes);  // says so
      return;
    }
    const auto access = writes ? Checker::Access::kWrite : Checker::Access::kRead;
    machine.checker.Touch(region->shadow, address - region->begin, bytes, access, AccessorOf(id),
                          {region->name});
  });
}

}  // namespace strata::standin
