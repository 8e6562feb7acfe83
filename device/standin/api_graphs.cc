// Capture of streams into graphs, and their launches.
#include <algorithm>
#include <utility>

#include "device/standin/runtime.h"

using strata::standin::Call;
using strata::standin::Capture;
using strata::standin::EraseOwned;
using strata::standin::FindOwned;
using strata::standin::Graph;
using strata::standin::GraphExecution;
using strata::standin::InCapture;
using strata::standin::Runtime;
using strata::standin::Stream;

namespace strata::standin {
namespace {

cudaError_t EndCapture(Runtime& runtime, Stream& stream, cudaGraph_t* graph) {
  Capture* const capture = stream.capture;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (capture->origin != &stream) {
    capture->is_invalid = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  for (auto& [other, nodes] : capture->last) other->capture = nullptr;
  stream.capture = nullptr;
  const cudaError_t error = capture->is_invalid    ? cudaErrorStreamCaptureInvalidated
                            : !capture->IsJoined() ? cudaErrorStreamCaptureUnjoined
                                                   : cudaSuccess;
  if (error == cudaSuccess) {
    *graph = reinterpret_cast<cudaGraph_t>(capture->graph);
  } else {
    EraseOwned(runtime.graphs, capture->graph);
    *graph = nullptr;
  }
  EraseOwned(runtime.captures, capture);
  return error;
}

cudaError_t Instantiate(const char* name, cudaGraphExec_t* execution, cudaGraph_t handle) {
  return Call(name, InCapture::kAllowed, [&](Runtime& runtime) {
    const Graph* const graph = FindOwned(runtime.graphs, handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_unique<GraphExecution>(*graph, runtime.streams());
    *execution = reinterpret_cast<cudaGraphExec_t>(made.get());
    runtime.executions.insert(std::move(made));
    return cudaSuccess;
  });
}

}  // namespace
}  // namespace strata::standin

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return Call("cudaStreamBeginCapture", InCapture::kAllowed, [&](Runtime& runtime) {
    Stream* const stream = runtime.Find(handle, "a capture");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream == runtime.streams().Default()) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    auto graph = std::make_unique<Graph>();
    auto capture = std::make_unique<Capture>();
    capture->graph = graph.get();
    capture->origin = stream;
    capture->relaxed = mode == cudaStreamCaptureModeRelaxed;
    stream->capture = capture.get();
    runtime.graphs.insert(std::move(graph));
    runtime.captures.insert(std::move(capture));
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return Call("cudaStreamEndCapture", InCapture::kAllowed, [&](Runtime& runtime) {
    Stream* const stream = runtime.Find(handle, "a capture");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return strata::standin::EndCapture(runtime, *stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return Call("cudaStreamIsCapturing", InCapture::kAllowed, [&](Runtime& runtime) {
    const Stream* const stream = runtime.Find(handle, "a query");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr    ? cudaStreamCaptureStatusNone
              : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* execution, cudaGraph_t graph,
                                 unsigned long long) {  // NOLINT(runtime/int): CUDA's declaration
  return strata::standin::Instantiate("cudaGraphInstantiate", execution, graph);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* execution, cudaGraph_t graph,
                                          unsigned long long) {  // NOLINT(runtime/int)
  return strata::standin::Instantiate("cudaGraphInstantiateWithFlags", execution, graph);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return Call("cudaGraphLaunch", InCapture::kAllowed, [&](Runtime& runtime) {
    GraphExecution* const execution = FindOwned(runtime.executions, handle);
    Stream* const stream = runtime.Find(stream_handle, "a graph's launch");
    if (execution == nullptr) return cudaErrorInvalidValue;
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) return cudaErrorNotSupported;  // child graphs
    execution->Launch(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t) {
  return Call("cudaGraphUpload", InCapture::kAllowed, [&](Runtime& runtime) {
    return FindOwned(runtime.executions, handle) == nullptr ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  return Call("cudaGraphGetNodes", InCapture::kAllowed, [&](Runtime& runtime) {
    Graph* const graph = FindOwned(runtime.graphs, handle);
    if (graph == nullptr) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (size_t i = 0; i < std::min(*count, graph->nodes.size()); ++i) {
        nodes[i] = reinterpret_cast<cudaGraphNode_t>(&graph->nodes[i]);
      }
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return Call("cudaGraphDestroy", InCapture::kAllowed, [&](Runtime& runtime) {
    return EraseOwned(runtime.graphs, handle) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

// Launches that have not run keep what they need.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return Call("cudaGraphExecDestroy", InCapture::kAllowed, [&](Runtime& runtime) {
    return EraseOwned(runtime.executions, handle) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

}  // extern "C"
