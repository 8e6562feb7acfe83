#include "device/standin/runtime.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "device/standin/fat_binary.h"
#include "device/standin/managed.h"

namespace strata::standin {
namespace {

std::unique_ptr<Runtime>& Instance() {
  static auto* const instance = new std::unique_ptr<Runtime>;
  return *instance;
}

std::condition_variable_any& Changed() {
  static auto* const changed = new std::condition_variable_any;
  return *changed;
}

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

void Faults::FailOperation(int64_t count, cudaError_t error) { operation_ = {count, error}; }

void Faults::FailCall(std::string name, int64_t count, cudaError_t error) {
  calls_[std::move(name)] = {count, error};
}

bool Faults::CountOperation(int device) {
  if (operation_.left > 0 && --operation_.left == 0) Stick(device, operation_.error);
  return sticky(device) == cudaSuccess;
}

cudaError_t Faults::CountCall(const char* name) {
  const auto found = calls_.find(name);
  if (found == calls_.end() || found->second.left == 0) return cudaSuccess;
  return --found->second.left == 0 ? found->second.error : cudaSuccess;
}

bool Faults::IsLeftOut(const char* name) {
  ++counts_[name];
  instead_ = nullptr;
  if (misplaced_.left == 0 || misplaced_.name != name || --misplaced_.left > 0) return false;
  instead_ = misplaced_.stream;
  return instead_ == nullptr;
}

Runtime::Runtime(const Options& options) : machine_(options), streams_(machine_) {
  streams_.may_run = [this](int device) { return faults_.CountOperation(device); };
  streams_.has_failed = [this](int device) { return faults_.sticky(device) != cudaSuccess; };
  streams_.fail_all = [this] {
    for (int device = 0; device < machine_.options.device_count; ++device) {
      faults_.Stick(device, cudaErrorLaunchTimeout);
    }
    NoteChange();
  };
  if (options.fail_at_finding) {
    machine_.findings.at_each = [this](const Finding& finding) {
      std::fprintf(stderr, "stand-in of CUDA: %s\n", finding.text.c_str());
      for (int device = 0; device < machine_.options.device_count; ++device) {
        faults_.Stick(device, cudaErrorAssert);
      }
    };
  }
  streams_.let_others_act = [this] { return LetOthersAct(machine_.options.patience_seconds); };
  streams_.let_others_act_shortly = [this] { LetOthersAct(50e-6); };
  streams_.changed = [this] { NoteChange(); };
}

bool Runtime::LetOthersAct(double seconds) {
  using Seconds = std::chrono::duration<double>;
  const uint64_t before = changes_;
  const auto has_changed = [&] { return changes_ != before; };
  if (!streams_.IsValueAwaited()) return Changed().wait_for(Mutex(), Seconds(seconds), has_changed);
  // Values are written without a word.
  constexpr double kMoment = 50e-6;
  for (double waited = 0; waited < seconds; waited += kMoment) {
    if (Changed().wait_for(Mutex(), Seconds(kMoment), has_changed)) return true;
    if (streams_.IsValueThere()) return true;
  }
  return false;
}

void Runtime::NoteChange() {
  ++changes_;
  Changed().notify_all();
}

Runtime& Runtime::Get() {
  if (Instance() == nullptr) Instance() = std::make_unique<Runtime>(Options{});
  return *Instance();
}

void Runtime::Reset(const Options& options) {
  const std::lock_guard<std::recursive_mutex> lock(Mutex());
  Instance() = nullptr;  // first: its memory is large
  Instance() = std::make_unique<Runtime>(options);
  last_error = cudaSuccess;
  CurrentDevice() = 0;
}

std::recursive_mutex& Runtime::Mutex() {
  static auto* const mutex = new std::recursive_mutex;
  return *mutex;
}

Runtime::Module* Runtime::Load(size_t index) {
  auto& module = modules_[{CurrentDevice(), index}];
  if (module != nullptr) return module.get();
  module = std::make_unique<Module>();
  const std::string_view text = TheRegistry().modules[index];
  absl::StatusOr<PtxModule> parsed = ParsePtx(text, machine_.findings);
  if (text.empty() || !parsed.ok()) {
    machine_.findings.Report(
        FindingKind::kUnsupported, absl::StrCat("module ", index), 0,
        text.empty() ? "a fat binary without plain PTX: compile with --no-compress and "
                       "code=compute_XX"
                     : absl::StrCat("PTX that cannot be read: ", parsed.status().ToString()));
    return module.get();
  }
  module->ptx = *std::move(parsed);
  Stamp loaded;
  loaded.operation = kLoaded;
  for (const PtxVariable& variable : module->ptx.global) {
    Region* const region = machine_.memory.Allocate(variable.bytes, CurrentDevice());
    if (region == nullptr) continue;
    region->name = PlainVariableName(variable.name);
    std::memset(region->data, 0, variable.bytes);
    for (size_t i = 0; i < variable.values.size(); ++i) {
      std::memcpy(region->data + i * variable.element_bytes, &variable.values[i],
                  variable.element_bytes);
    }
    machine_.checker.Mark(region->shadow, 0, variable.bytes, loaded);
    module->symbols[variable.name] = region->begin;
  }
  return module.get();
}

Kernel* Runtime::FindKernel(const void* host) {
  auto& kernel = kernels_[{CurrentDevice(), host}];
  if (kernel != nullptr) return kernel.get();
  const auto registered = TheRegistry().kernels.find(host);
  if (registered == TheRegistry().kernels.end()) return nullptr;
  const Module* const module = Load(registered->second.module);
  const auto entry = module->ptx.entries.find(registered->second.name);
  if (entry == module->ptx.entries.end()) return nullptr;
  absl::StatusOr<Program> program = Decode(module->ptx, entry->second, module->symbols);
  if (!program.ok()) return nullptr;
  kernel = std::make_unique<Kernel>();
  kernel->program = *std::move(program);
  return kernel.get();
}

uint64_t Runtime::FindVariable(const void* host) {
  const auto registered = TheRegistry().variables.find(host);
  if (registered == TheRegistry().variables.end()) return 0;
  const Module* const module = Load(registered->second.module);
  const auto symbol = module->symbols.find(registered->second.name);
  return symbol == module->symbols.end() ? 0 : symbol->second;
}

Stream* Runtime::Find(cudaStream_t handle, const char* what) {
  handle = faults_.StreamOf(handle);
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    machine_.findings.Report(FindingKind::kDefaultStream, what, 0,
                             absl::StrCat(what, " on stream 0, which waits for all others"));
    return streams_.Default();
  }
  Stream* const stream = reinterpret_cast<Stream*>(handle);
  return streams_.IsLive(stream) ? stream : nullptr;
}

void Runtime::Enqueue(Stream& stream, std::string name, Action run) {
  EnqueueMade(stream, std::move(name), [run = std::move(run)] { return Made{.run = run}; });
}

void Runtime::EnqueueMade(Stream& stream, std::string name, ActionMaker make) {
  if (stream.capture != nullptr) {
    stream.capture->Add(stream, std::move(name), std::move(make));
  } else {
    streams_.Put(stream, std::move(name), make());
  }
}

namespace internal {

bool& InHostFunction() {
  thread_local bool inside = false;
  return inside;
}

cudaError_t Begin(Runtime& runtime, const char* name, InCapture in_capture) {
  if (InHostFunction()) {
    runtime.machine().findings.Report(FindingKind::kHostFunction, name, 0,
                                      absl::StrCat("a host function calls ", name));
    return cudaErrorNotPermitted;
  }
  JudgeHostFaults(runtime.machine());
  if (runtime.faults().sticky() != cudaSuccess) return runtime.faults().sticky();
  if (const cudaError_t error = runtime.faults().CountCall(name); error != cudaSuccess)
    return error;
  if (in_capture == InCapture::kForbidden) {
    bool strict = false;
    for (const auto& capture : runtime.captures) {
      if (capture->relaxed) continue;
      capture->is_invalid = strict = true;
    }
    if (strict) return cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

cudaError_t End(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

}  // namespace internal

}  // namespace strata::standin

extern "C" {

cudaError_t cudaGetLastError() {
  using strata::standin::last_error;
  const cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const std::lock_guard<std::recursive_mutex> lock(strata::standin::Runtime::Mutex());
  const cudaError_t sticky = strata::standin::Runtime::Get().faults().sticky();
  return sticky != cudaSuccess ? sticky : strata::standin::last_error;
}

}  // extern "C"
