#include "device/standin/standin.h"

#include "device/standin/managed.h"
#include "device/standin/runtime.h"

namespace strata::standin {

void Reset(const Options& options) { Runtime::Reset(options); }

std::vector<Finding> TakeFindings() {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Machine& machine = Runtime::Get().machine();
  JudgeHostFaults(machine);
  return machine.findings.Take();
}

void FailOperation(int64_t count, cudaError_t error) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime::Get().faults().FailOperation(count, error);
}

void FailCall(const std::string& function, int64_t count, cudaError_t error) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime::Get().faults().FailCall(function, count, error);
}

void LeaveOutCall(const std::string& function, int64_t count) {
  MoveCall(function, count, nullptr);
}

void MoveCall(const std::string& function, int64_t count, cudaStream_t stream) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime::Get().faults().MisplaceCall(function, count, stream);
}

int64_t CallsOf(const std::string& function) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  return Runtime::Get().faults().calls(function);
}

Counters GetCounters() {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Machine& machine = Runtime::Get().machine();
  JudgeHostFaults(machine);
  return {machine.checker.accesses(), machine.memory.page_moves()};
}

}  // namespace strata::standin
