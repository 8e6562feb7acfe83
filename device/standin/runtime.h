// The stand-in CUDA runtime's state, and what each entry point of the API begins with.
#ifndef STRATA_DEVICE_STANDIN_RUNTIME_H_
#define STRATA_DEVICE_STANDIN_RUNTIME_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "device/standin/block.h"
#include "device/standin/graphs.h"
#include "device/standin/machine.h"
#include "device/standin/ptx_text.h"
#include "device/standin/streams.h"

namespace strata::standin {

struct Event {
  Mark mark;
  uint64_t number = 0;  // of its last record among all; 0: never recorded
  bool has_time = true;
  Capture* capture = nullptr;  // recorded in
  std::set<int> nodes;         // then: what is before it
};

// Errors that tests ask for, and the devices' own: those stay until the process ends.
class Faults {
 public:
  void FailOperation(int64_t count, cudaError_t error);
  void FailCall(std::string name, int64_t count, cudaError_t error);
  // `stream` null: it is left out.
  void MisplaceCall(std::string name, int64_t count, cudaStream_t stream) {
    misplaced_ = {std::move(name), count, stream};
  }

  // Counts an operation about to run on a device; false: it does not.
  bool CountOperation(int device);
  // What a call of this name is to return.
  cudaError_t CountCall(const char* name);
  // Of a call that has been counted: whether it is left out.
  bool IsLeftOut(const char* name);
  // The stream that the present call goes to, asked once.
  cudaStream_t StreamOf(cudaStream_t handle) {
    const cudaStream_t instead = std::exchange(instead_, nullptr);
    return instead != nullptr ? instead : handle;
  }
  int64_t calls(const std::string& name) const {
    const auto found = counts_.find(name);
    return found == counts_.end() ? 0 : found->second;
  }
  void Stick(int device, cudaError_t error) { sticky_.emplace(device, error); }
  cudaError_t sticky(int device) const {
    const auto found = sticky_.find(device);
    return found == sticky_.end() ? cudaSuccess : found->second;
  }
  // Of the calling thread's device.
  cudaError_t sticky() const { return sticky(CurrentDevice()); }

 private:
  struct Countdown {
    int64_t left = 0;
    cudaError_t error = cudaSuccess;
  };
  struct Misplaced {
    std::string name;
    int64_t left = 0;
    cudaStream_t stream = nullptr;
  };
  Countdown operation_;
  Misplaced misplaced_;
  cudaStream_t instead_ = nullptr;  // of the present call; null: its own
  std::map<std::string, int64_t> counts_;
  std::map<std::string, Countdown> calls_;
  std::map<int, cudaError_t> sticky_;  // by device
};

// A kernel by the address of its host twin.
struct Kernel {
  Program program;
  int64_t most_dynamic_shared_bytes = -1;  // as cudaFuncSetAttribute said; −1: it did not
  int64_t MostDynamicSharedBytes() const {
    return most_dynamic_shared_bytes >= 0 ? most_dynamic_shared_bytes
                                          : (48 << 10) - static_cast<int64_t>(program.shared_bytes);
  }
};

// Does something as a thread of this device.
class OnDevice {
 public:
  explicit OnDevice(int device) : before_(std::exchange(CurrentDevice(), device)) {}
  ~OnDevice() { CurrentDevice() = before_; }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  const int before_;
};

// What a library on the runtime keeps there, so that it begins anew with it.
class Extension {
 public:
  virtual ~Extension() = default;
  // A host thread waits for a stream, or marks its end.
  virtual void OnMark(Stream& stream, const char* what) = 0;
};

class Runtime {
 public:
  explicit Runtime(const Options& options);

  // The process's, made at the first use; one mutex guards everything.
  static Runtime& Get();
  static void Reset(const Options& options);
  static std::recursive_mutex& Mutex();

  Machine& machine() { return machine_; }
  const Machine& machine() const { return machine_; }
  Streams& streams() { return streams_; }
  Faults& faults() { return faults_; }

  // For the calling thread's device.
  // Errors: none of that name, or its PTX cannot be read (reported as a finding).
  Kernel* FindKernel(const void* host);
  // The address of a __device__ or __constant__ variable; 0: none.
  uint64_t FindVariable(const void* host);

  // The stream of a handle: null when it is none. Stream 0 is a finding.
  Stream* Find(cudaStream_t handle, const char* what);
  // Hands an operation to a stream, or to the graph that it is recorded in.
  void Enqueue(Stream& stream, std::string name, Action run);
  void EnqueueMade(Stream& stream, std::string name, ActionMaker make);
  // Waits for other host threads to change something; false: none did.
  bool LetOthersAct(double seconds);
  void NoteChange();

  std::set<std::unique_ptr<Event>> events;
  std::set<std::unique_ptr<Graph>> graphs;
  std::set<std::unique_ptr<GraphExecution>> executions;
  std::set<std::unique_ptr<Capture>> captures;  // going on
  uint64_t events_recorded = 0;
  uint64_t host_functions_run = 0;
  std::unique_ptr<Extension> extension;

 private:
  struct Module {
    PtxModule ptx;
    Symbols symbols;
  };
  Module* Load(size_t index);

  Machine machine_;
  Streams streams_;
  Faults faults_;
  // By device.
  std::map<std::pair<int, size_t>, std::unique_ptr<Module>> modules_;
  std::map<std::pair<int, const void*>, std::unique_ptr<Kernel>> kernels_;
  uint64_t changes_ = 0;
};

// Whether calls of other streams' captures forbid the call (CUDA: "unsafe" calls).
enum class InCapture : uint8_t { kAllowed, kForbidden };

namespace internal {
bool& InHostFunction();
cudaError_t Begin(Runtime& runtime, const char* name, InCapture in_capture);
cudaError_t End(cudaError_t error);
}  // namespace internal

// What every entry point does: one at a time, the device's sticky error first, then an injected
// one, and its error remembered for cudaGetLastError.
template <typename Body>
cudaError_t Call(const char* name, InCapture in_capture, Body&& body) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  Runtime& runtime = Runtime::Get();
  const cudaError_t error = internal::Begin(runtime, name, in_capture);
  if (error != cudaSuccess || runtime.faults().IsLeftOut(name)) return internal::End(error);
  return internal::End(body(runtime));
}

// In a set of owned objects, the one with this address.
template <typename T, typename Handle>
T* FindOwned(const std::set<std::unique_ptr<T>>& owned, Handle handle) {
  for (const auto& object : owned) {
    if (static_cast<const void*>(object.get()) == static_cast<const void*>(handle))
      return object.get();
  }
  return nullptr;
}

template <typename T, typename Handle>
bool EraseOwned(std::set<std::unique_ptr<T>>& owned, Handle handle) {
  for (auto it = owned.begin(); it != owned.end(); ++it) {
    if (static_cast<const void*>(it->get()) != static_cast<const void*>(handle)) continue;
    owned.erase(it);
    return true;
  }
  return false;
}

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_RUNTIME_H_
