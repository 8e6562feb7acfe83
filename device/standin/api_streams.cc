// Streams, events, host functions.
#include <utility>

#include "device/standin/runtime.h"

namespace strata::standin {
namespace {

cudaError_t CreateStream(const char* name, cudaStream_t* handle) {
  return Call(name, InCapture::kAllowed, [&](Runtime& runtime) {
    *handle = reinterpret_cast<cudaStream_t>(runtime.streams().Create());
    return cudaSuccess;
  });
}

cudaError_t CreateEvent(const char* name, cudaEvent_t* handle, unsigned flags) {
  return Call(name, InCapture::kAllowed, [&](Runtime& runtime) {
    auto event = std::make_unique<Event>();
    event->has_time = (flags & cudaEventDisableTiming) == 0;
    *handle = reinterpret_cast<cudaEvent_t>(event.get());
    runtime.events.insert(std::move(event));
    return cudaSuccess;
  });
}

// With a stream, in a call named `name`; a wait for one that records is an error, and ends that.
template <typename Body>
cudaError_t OnStream(const char* name, const char* what, cudaStream_t handle, bool waits,
                     Body&& body) {
  return Call(name, InCapture::kAllowed, [&](Runtime& runtime) -> cudaError_t {
    Stream* const stream = runtime.Find(handle, what);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (waits && stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    return body(runtime, *stream);
  });
}

template <typename Body>
cudaError_t WithEvent(const char* name, cudaEvent_t handle, Body&& body) {
  return Call(name, InCapture::kAllowed, [&](Runtime& runtime) -> cudaError_t {
    Event* const event = FindOwned(runtime.events, handle);
    return event == nullptr ? cudaErrorInvalidResourceHandle : body(runtime, *event);
  });
}

bool IsRecording(const Runtime& runtime, const Event& event) {
  return event.capture != nullptr && FindOwned(runtime.captures, event.capture) != nullptr;
}

cudaError_t Record(Runtime& runtime, Event& event, Stream& stream) {
  if (runtime.extension != nullptr) runtime.extension->OnMark(stream, "an event is recorded");
  event.number = ++runtime.events_recorded;
  event.capture = stream.capture;
  event.mark = runtime.streams().End(stream);
  if (stream.capture != nullptr) event.nodes = stream.capture->last[&stream];
  return cudaSuccess;
}

cudaError_t Wait(Runtime& runtime, const Event& event, Stream& stream) {
  if (event.number == 0) return cudaSuccess;  // never recorded: no wait, as CUDA has it
  if (IsRecording(runtime, event)) {
    if (stream.capture != nullptr && stream.capture != event.capture) {
      return cudaErrorStreamCaptureMerge;
    }
    stream.capture = event.capture;
    stream.capture->last[&stream].insert(event.nodes.begin(), event.nodes.end());
    return cudaSuccess;
  }
  if (stream.capture != nullptr) {
    stream.capture->is_invalid = true;
    return cudaErrorStreamCaptureIsolation;
  }
  if (event.capture == nullptr) runtime.streams().Wait(stream, event.mark);
  return cudaSuccess;
}

}  // namespace
}  // namespace strata::standin

using strata::standin::Call;
using strata::standin::Event;
using strata::standin::InCapture;
using strata::standin::Mark;
using strata::standin::OnStream;
using strata::standin::Runtime;
using strata::standin::Stream;
using strata::standin::WithEvent;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return strata::standin::CreateStream("cudaStreamCreate", stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return strata::standin::CreateStream("cudaStreamCreateWithFlags", stream);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return strata::standin::CreateStream("cudaStreamCreateWithPriority", stream);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Call("cudaDeviceGetStreamPriorityRange", InCapture::kAllowed, [&](Runtime&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return OnStream("cudaStreamDestroy", "a destruction", handle, true,
                  [&](Runtime& runtime, Stream& stream) {
                    if (&stream == runtime.streams().Default())
                      return cudaErrorInvalidResourceHandle;
                    runtime.streams().Destroy(&stream);
                    return cudaSuccess;
                  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return OnStream("cudaStreamSynchronize", "a wait", handle, true,
                  [&](Runtime& runtime, Stream& stream) {
                    if (runtime.extension != nullptr) {
                      runtime.extension->OnMark(stream, "the host waits");
                    }
                    runtime.streams().RunUntil(runtime.streams().End(stream));
                    return runtime.faults().sticky();
                  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return OnStream("cudaStreamQuery", "a query", handle, true,
                  [&](Runtime& runtime, Stream& stream) {
                    const Mark end = runtime.streams().End(stream);
                    if (runtime.streams().IsReached(end)) {
                      runtime.streams().RunUntil(end);  // now the host knows
                      return runtime.faults().sticky();
                    }
                    runtime.streams().RunTowards(end);
                    return cudaErrorNotReady;
                  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned) {
  return OnStream("cudaStreamWaitEvent", "a wait for an event", handle, false,
                  [&](Runtime& runtime, Stream& stream) {
                    const Event* const event =
                        strata::standin::FindOwned(runtime.events, event_handle);
                    if (event == nullptr) return cudaErrorInvalidResourceHandle;
                    return strata::standin::Wait(runtime, *event, stream);
                  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  return OnStream("cudaLaunchHostFunc", "a host function", handle, false,
                  [&](Runtime& runtime, Stream& stream) {
                    const auto run = [&runtime, function, argument](strata::standin::OperationId) {
                      bool& inside = strata::standin::internal::InHostFunction();
                      inside = true;
                      ++runtime.host_functions_run;
                      function(argument);
                      inside = false;
                    };
                    runtime.EnqueueMade(stream, "a host function", [run] {
                      return strata::standin::Made{.run = run, .is_for_host = true};
                    });
                    return cudaSuccess;
                  });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return strata::standin::CreateEvent("cudaEventCreate", event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return strata::standin::CreateEvent("cudaEventCreateWithFlags", event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return Call("cudaEventDestroy", InCapture::kAllowed, [&](Runtime& runtime) {
    return strata::standin::EraseOwned(runtime.events, handle) ? cudaSuccess
                                                               : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event_handle, cudaStream_t handle) {
  return OnStream("cudaEventRecord", "a record of an event", handle, false,
                  [&](Runtime& runtime, Stream& stream) {
                    Event* const event = strata::standin::FindOwned(runtime.events, event_handle);
                    if (event == nullptr) return cudaErrorInvalidResourceHandle;
                    return strata::standin::Record(runtime, *event, stream);
                  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return WithEvent("cudaEventSynchronize", handle, [&](Runtime& runtime, Event& event) {
    if (strata::standin::IsRecording(runtime, event)) return cudaErrorCapturedEvent;
    if (event.number != 0) runtime.streams().RunUntil(event.mark);
    return runtime.faults().sticky();
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return WithEvent("cudaEventQuery", handle, [&](Runtime& runtime, Event& event) {
    if (strata::standin::IsRecording(runtime, event)) return cudaErrorCapturedEvent;
    if (event.number == 0) return cudaSuccess;
    if (runtime.streams().IsReached(event.mark)) {
      runtime.streams().RunUntil(event.mark);
      return runtime.faults().sticky();
    }
    // Things go on while the host asks, so that who asks in a loop comes to an end.
    runtime.streams().RunTowards(event.mark);
    return cudaErrorNotReady;
  });
}

// The stand-in has no time: a microsecond per event recorded.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return Call("cudaEventElapsedTime", InCapture::kAllowed, [&](Runtime& runtime) {
    const Event* const first = strata::standin::FindOwned(runtime.events, begin);
    const Event* const last = strata::standin::FindOwned(runtime.events, end);
    if (first == nullptr || last == nullptr || first->number == 0 || last->number == 0 ||
        !first->has_time || !last->has_time) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!runtime.streams().IsReached(first->mark) || !runtime.streams().IsReached(last->mark)) {
      return cudaErrorNotReady;
    }
    *milliseconds = 1e-3f * (static_cast<float>(last->number) - static_cast<float>(first->number));
    return cudaSuccess;
  });
}

}  // extern "C"
