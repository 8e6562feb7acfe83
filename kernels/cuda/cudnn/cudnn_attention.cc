#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <cuda_runtime_api.h>
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <exception>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "common/units.h"
#include "device/cuda/cuda_status.h"
#include "kernels/cuda/cudnn/cudnn_library.h"

// What cuDNN's C++ API finds the library's functions in.
namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace strata::kernels::cuda {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kMostHeadSize = 256;

// Operands by the numbers that graphs and calls know them by.
enum Operand : int64_t { kQ = 1, kK, kV, kOut, kLse, kDout, kDq, kDk, kDv };
using Pointers = std::unordered_map<int64_t, void*>;

// The API's calls, some of which throw.
template <typename Call>
absl::Status Checked(const char* what, const Call& call) {
  try {
    fe::error_t error = call();
    if (error.is_good()) return absl::OkStatus();
    const std::string message = error.get_message();  // with a line for each engine that refuses
    return absl::UnimplementedError(
        absl::StrCat("cuDNN: ", what, ": ", message.substr(0, message.find('\n'))));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("cuDNN: ", what, ": ", error.what()));
  }
}

absl::Status CheckShape(const AttentionShape& shape, NumberType type) {
  if (type == NumberType::kF32) return absl::UnimplementedError("cuDNN: attention of f32");
  if (shape.head_size % 8 != 0 || shape.head_size > kMostHeadSize) {
    return absl::UnimplementedError(absl::StrCat("cuDNN: heads of ", shape.head_size));
  }
  const bool windowed = shape.scores.window > 0 && shape.scores.window < shape.sequence;
  if (windowed || shape.scores.softcap != 0) {
    return absl::UnimplementedError("cuDNN: attention with a window or a softcap");
  }
  if (shape.batch < 1 || shape.sequence < 1 || shape.kv_heads < 1 ||
      shape.heads % shape.kv_heads != 0) {
    return absl::InvalidArgumentError("cuDNN: attention of nothing, or heads without a group");
  }
  return absl::OkStatus();
}

int64_t QkvRow(const AttentionShape& shape) {
  return (shape.heads + 2 * shape.kv_heads) * shape.head_size;
}

// What one run of a graph goes over: sequences, and key heads with their queries'.
struct Piece {
  int64_t sequences = 0, kv_heads = 0;
};

int64_t ScoreBytes(const AttentionShape& shape, const Piece& piece) {
  return piece.sequences * piece.kv_heads * (shape.heads / shape.kv_heads) *
         common::RoundUp(shape.sequence, 64) * common::RoundUp(shape.sequence, 128) * 2;
}

// The largest that fits, all of one size.
absl::StatusOr<Piece> PieceOf(const AttentionShape& shape, int64_t most_bytes) {
  for (int64_t sequences = shape.batch; sequences > 0; --sequences) {
    const Piece piece{sequences, shape.kv_heads};
    if (shape.batch % sequences == 0 && ScoreBytes(shape, piece) <= most_bytes) return piece;
  }
  for (int64_t kv_heads = shape.kv_heads; kv_heads > 0; --kv_heads) {
    const Piece piece{1, kv_heads};
    // Of each head, lse begins at a multiple of 16 bytes.
    if (shape.kv_heads % kv_heads == 0 && shape.sequence % 4 == 0 &&
        ScoreBytes(shape, piece) <= most_bytes) {
      return piece;
    }
  }
  return absl::UnimplementedError(absl::StrCat("cuDNN: the backward of sequences of ",
                                               shape.sequence, " rows needs more than ", most_bytes,
                                               " bytes"));
}

// A graph over a piece of the shape, whose rows are those of packed operands.
class Graphs {
 public:
  // `capability`: of the device, 90 for 9.0: told to nodes when they are made.
  Graphs(const AttentionShape& shape, const Piece& piece, NumberType type, int capability)
      : shape_(shape),
        heads_(piece.kv_heads * (shape.heads / shape.kv_heads)),
        piece_(piece),
        graph_(std::make_shared<Graph>()) {
    graph_
        ->set_io_data_type(type == NumberType::kBF16 ? fe::DataType_t::BFLOAT16
                                                     : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT)
        .set_sm_version(capability)
        // Plans outlive the graphs that are captured of them.
        .set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);
  }

  std::shared_ptr<Graph> Forward() {
    auto [out, lse] =
        graph_->sdpa(In(kQ, heads_, QkvRow(shape_)), In(kK, piece_.kv_heads, QkvRow(shape_)),
                     In(kV, piece_.kv_heads, QkvRow(shape_)),
                     fe::graph::SDPA_attributes()
                         .set_name("attention")
                         .set_generate_stats(true)
                         .set_causal_mask(true)
                         .set_attn_scale(Scale()));
    Place(out, kOut, heads_, OutRow());
    PlaceLse(lse);
    return graph_;
  }

  std::shared_ptr<Graph> Backward() {
    Tensor lse = graph_->tensor(fe::graph::Tensor_attributes()
                                    .set_dim({piece_.sequences, heads_, shape_.sequence, 1})
                                    .set_stride(LseStrides())
                                    .set_uid(kLse)
                                    .set_data_type(fe::DataType_t::FLOAT));
    auto [dq, dk, dv] = graph_->sdpa_backward(
        In(kQ, heads_, QkvRow(shape_)), In(kK, piece_.kv_heads, QkvRow(shape_)),
        In(kV, piece_.kv_heads, QkvRow(shape_)), In(kOut, heads_, OutRow()),
        In(kDout, heads_, OutRow()), lse,
        fe::graph::SDPA_backward_attributes()
            .set_name("attention_backward")
            .set_causal_mask(true)
            .set_attn_scale(Scale())
            .set_deterministic_algorithm(true));
    Place(dq, kDq, heads_, QkvRow(shape_));
    Place(dk, kDk, piece_.kv_heads, QkvRow(shape_));
    Place(dv, kDv, piece_.kv_heads, QkvRow(shape_));
    return graph_;
  }

 private:
  int64_t OutRow() const { return shape_.heads * shape_.head_size; }
  float Scale() const {
    return shape_.scores.scale > 0
               ? shape_.scores.scale
               : static_cast<float>(1 / std::sqrt(static_cast<double>(shape_.head_size)));
  }
  std::vector<int64_t> Strides(int64_t row) const {
    return {shape_.sequence * row, shape_.head_size, row, 1};
  }
  std::vector<int64_t> LseStrides() const {
    return {heads_ * shape_.sequence, shape_.sequence, 1, 1};
  }
  Tensor In(Operand operand, int64_t heads, int64_t row) {
    return graph_->tensor(fe::graph::Tensor_attributes()
                              .set_dim({piece_.sequences, heads, shape_.sequence, shape_.head_size})
                              .set_stride(Strides(row))
                              .set_uid(operand));
  }
  void Place(const Tensor& made, Operand operand, int64_t heads, int64_t row) {
    made->set_output(true)
        .set_dim({piece_.sequences, heads, shape_.sequence, shape_.head_size})
        .set_stride(Strides(row))
        .set_uid(operand);
  }
  void PlaceLse(const Tensor& made) {
    made->set_output(true)
        .set_dim({piece_.sequences, heads_, shape_.sequence, 1})
        .set_stride(LseStrides())
        .set_uid(kLse)
        .set_data_type(fe::DataType_t::FLOAT);
  }

  const AttentionShape shape_;
  const int64_t heads_;
  const Piece piece_;
  const std::shared_ptr<Graph> graph_;
};

// A graph that was built for the device, and where its runs take place.
struct Built {
  std::shared_ptr<Graph> graph;
  cudnnHandle_t handle = nullptr;
  cudaStream_t stream = nullptr;
  void* workspace = nullptr;

  absl::Status Run(Pointers& pointers) const {
    return Checked("attention", [&] {
      if (fe::detail::set_stream(handle, stream) != CUDNN_STATUS_SUCCESS) {
        return fe::error_t{fe::error_code_t::CUDNN_BACKEND_API_FAILED, "the stream is refused"};
      }
      return graph->execute(handle, pointers, workspace);
    });
  }
};

// `elements` of 16 bits further.
void* Past(const void* base, int64_t elements) {
  return const_cast<uint16_t*>(static_cast<const uint16_t*>(base) + elements);
}

class ForwardPlan final : public AttentionForwardPlan {
 public:
  ForwardPlan(const AttentionShape& shape, Built built) : shape_(shape), built_(std::move(built)) {}

  absl::Status Run(const void* qkv, void* out, float* lse) const override {
    const int64_t k = shape_.heads * shape_.head_size;
    Pointers pointers = {{kQ, Past(qkv, 0)},
                         {kK, Past(qkv, k)},
                         {kV, Past(qkv, k + shape_.kv_heads * shape_.head_size)},
                         {kOut, out},
                         {kLse, lse}};
    return built_.Run(pointers);
  }

 private:
  const AttentionShape shape_;
  const Built built_;
};

class BackwardPlan final : public AttentionBackwardPlan {
 public:
  BackwardPlan(const AttentionShape& shape, const Piece& piece, Built built)
      : shape_(shape), piece_(piece), built_(std::move(built)) {}

  absl::Status Run(const void* dout, const void* qkv, const void* out, const float* lse,
                   void* dqkv) const override {
    for (int64_t sequence = 0; sequence < shape_.batch; sequence += piece_.sequences) {
      for (int64_t kv_head = 0; kv_head < shape_.kv_heads; kv_head += piece_.kv_heads) {
        const int64_t head = kv_head * (shape_.heads / shape_.kv_heads);
        const int64_t row = sequence * shape_.sequence;
        const int64_t q = row * QkvRow(shape_) + head * shape_.head_size;
        const int64_t k = row * QkvRow(shape_) + (shape_.heads + kv_head) * shape_.head_size;
        const int64_t v = k + shape_.kv_heads * shape_.head_size;
        const int64_t o = (row * shape_.heads + head) * shape_.head_size;
        const float* const lse_at = lse + (sequence * shape_.heads + head) * shape_.sequence;
        Pointers pointers = {
            {kQ, Past(qkv, q)},   {kK, Past(qkv, k)},     {kV, Past(qkv, v)},
            {kOut, Past(out, o)}, {kDout, Past(dout, o)}, {kDq, Past(dqkv, q)},
            {kDk, Past(dqkv, k)}, {kDv, Past(dqkv, v)},   {kLse, const_cast<float*>(lse_at)}};
        RETURN_IF_ERROR(built_.Run(pointers));
      }
    }
    return absl::OkStatus();
  }

 private:
  const AttentionShape shape_;
  const Piece piece_;
  const Built built_;
};

class CudnnAttention final : public AttentionLibrary {
 public:
  CudnnAttention(cudnnHandle_t handle, int capability, int64_t most_score_bytes,
                 int64_t most_workspace_bytes)
      : handle_(handle),
        capability_(capability),
        most_score_bytes_(most_score_bytes),
        most_workspace_bytes_(most_workspace_bytes) {}
  ~CudnnAttention() override {
    forward_.clear();
    backward_.clear();
    for (const auto& [stream, workspace] : workspaces_) cudaFree(workspace.data);
    fe::detail::destroy_handle(handle_);
  }

  absl::StatusOr<const AttentionForwardPlan*> Forward(cudaStream_t stream,
                                                      const AttentionShape& shape,
                                                      NumberType type) override {
    return PlanOf<AttentionForwardPlan>(
        forward_, stream, shape, type, [&]() -> absl::StatusOr<std::unique_ptr<ForwardPlan>> {
          const Piece all{shape.batch, shape.kv_heads};
          ASSIGN_OR_RETURN(Built built,
                           Build(stream, Graphs(shape, all, type, capability_).Forward()));
          return std::make_unique<ForwardPlan>(shape, std::move(built));
        });
  }

  absl::StatusOr<const AttentionBackwardPlan*> Backward(cudaStream_t stream,
                                                        const AttentionShape& shape,
                                                        NumberType type) override {
    return PlanOf<AttentionBackwardPlan>(backward_, stream, shape, type,
                                         [&] { return MakeBackward(stream, shape, type); });
  }

  std::string Summary() const override {
    bool used = false;
    std::string refused;
    const auto look = [&](const auto& plans) {
      for (const auto& [key, plan] : plans) {
        used = used || plan.ok();
        if (!plan.ok() && refused.empty()) refused = std::string(plan.status().message());
      }
    };
    look(forward_);
    look(backward_);
    const std::string name = absl::StrCat("cuDNN ", fe::detail::get_backend_version_string());
    const std::string ours = absl::StrCat("Strata's kernels (", refused, ")");
    if (!used) return refused.empty() ? "" : absl::StrCat("attention by ", ours);
    return absl::StrCat("attention by ", name, ", with a workspace of ",
                        common::CeilDivide(WorkspaceBytes(), common::kMiB),
                        " MiB beside the plan's memory",
                        refused.empty() ? "" : absl::StrCat("; in part by ", ours));
  }

 private:
  using Key = std::tuple<cudaStream_t, std::array<int64_t, 6>, float, float, NumberType>;
  // And why there is none.
  template <typename Plan>
  using Plans = std::map<Key, absl::StatusOr<std::unique_ptr<Plan>>>;

  // The plan, made at the first call.
  template <typename Asked, typename Plan, typename Make>
  static absl::StatusOr<const Asked*> PlanOf(Plans<Plan>& plans, cudaStream_t stream,
                                             const AttentionShape& shape, NumberType type,
                                             const Make& make) {
    const ScoreOptions& scores = shape.scores;
    const Key key{
        stream,
        {shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size, scores.window},
        scores.softcap,
        scores.scale,
        type};
    const auto [plan, is_new] = plans.try_emplace(key, absl::UnknownError("not made yet"));
    if (is_new) {
      const absl::Status status = CheckShape(shape, type);
      if (status.ok()) {
        plan->second = make();
      } else {
        plan->second = status;
      }
    }
    RETURN_IF_ERROR(plan->second.status());
    return plan->second->get();
  }

  // In pieces as large as the workspace may be: beside gradients of scores plans hold what only
  // cuDNN knows, which is much where sequences are short.
  absl::StatusOr<std::unique_ptr<BackwardPlan>> MakeBackward(cudaStream_t stream,
                                                             const AttentionShape& shape,
                                                             NumberType type) {
    ASSIGN_OR_RETURN(Piece piece, PieceOf(shape, most_score_bytes_));
    while (true) {
      absl::StatusOr<Built> built =
          Build(stream, Graphs(shape, piece, type, capability_).Backward());
      if (built.ok()) return std::make_unique<BackwardPlan>(shape, piece, *std::move(built));
      if (!absl::IsOutOfRange(built.status())) return built.status();
      const absl::StatusOr<Piece> smaller = PieceOf(shape, ScoreBytes(shape, piece) - 1);
      if (!smaller.ok()) return built.status();
      piece = *smaller;
    }
  }

  absl::StatusOr<Built> Build(cudaStream_t stream, std::shared_ptr<Graph> graph) {
    int64_t bytes = 0;
    RETURN_IF_ERROR(Checked("a plan of attention", [&] {
      const fe::error_t error =
          graph->build(handle_, {fe::HeurMode_t::A}, fe::BuildPlanPolicy_t::HEURISTICS_CHOICE);
      return error.is_good() ? graph->get_workspace_size(bytes) : error;
    }));
    ASSIGN_OR_RETURN(void* const workspace, WorkspaceOf(stream, bytes));
    return Built{std::move(graph), handle_, stream, workspace};
  }

  // Plans of a stream share one, since they run one after the other. One that has become too small
  // is kept: graphs that were captured refer to it. OutOfRange: they would be too large.
  absl::StatusOr<void*> WorkspaceOf(cudaStream_t stream, int64_t bytes) {
    for (auto [at, end] = workspaces_.equal_range(stream); at != end; ++at) {
      if (at->second.bytes >= bytes) return at->second.data;
    }
    if (bytes == 0) return nullptr;
    if (bytes > most_workspace_bytes_ - WorkspaceBytes()) {
      return absl::OutOfRangeError(absl::StrCat("cuDNN: a workspace of ", bytes, " bytes beside ",
                                                WorkspaceBytes(), ", of at most ",
                                                most_workspace_bytes_));
    }
    const std::string what = absl::StrCat("a workspace of ", bytes, " bytes for cuDNN");
    size_t free = 0, total = 0;
    RETURN_IF_ERROR(device::CudaStatus(what, cudaMemGetInfo(&free, &total)));
    if (static_cast<int64_t>(free) - bytes < kLeftFreeBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          what, " would leave less than ", kLeftFreeBytes, " of the device's memory free"));
    }
    void* data = nullptr;
    const cudaError_t error = cudaMalloc(&data, bytes);
    if (error != cudaSuccess) {
      cudaGetLastError();  // nobody else's
      return device::CudaStatus(what, error);
    }
    workspaces_.insert({stream, {data, bytes}});
    return data;
  }

  int64_t WorkspaceBytes() const {
    int64_t bytes = 0;
    for (const auto& [stream, workspace] : workspaces_) bytes += workspace.bytes;
    return bytes;
  }

  struct Workspace {
    void* data = nullptr;
    int64_t bytes = 0;
  };

  const cudnnHandle_t handle_;
  const int capability_;
  const int64_t most_score_bytes_, most_workspace_bytes_;
  Plans<ForwardPlan> forward_;
  Plans<BackwardPlan> backward_;
  std::multimap<cudaStream_t, Workspace> workspaces_;
};

absl::Status OpenLibrary() {
  if (fe::cudnn_dlhandle != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(fe::cudnn_dlhandle, OpenCudnnLibrary());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttentionLibrary>> OpenCudnnAttention(int64_t most_score_bytes,
                                                                     int64_t most_workspace_bytes) {
  RETURN_IF_ERROR(OpenLibrary());
  int device = 0, major = 0, minor = 0;
  RETURN_IF_ERROR(device::CudaStatus("the current device", cudaGetDevice(&device)));
  RETURN_IF_ERROR(device::CudaStatus(
      "the device's capability",
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)));
  RETURN_IF_ERROR(device::CudaStatus(
      "the device's capability",
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)));
  cudnnHandle_t handle = nullptr;
  RETURN_IF_ERROR(Checked("its start", [&] {
    const cudnnStatus_t status = fe::detail::create_handle(&handle);
    if (status == CUDNN_STATUS_SUCCESS) return fe::error_t{};
    return fe::error_t{fe::error_code_t::HANDLE_ERROR, fe::detail::get_error_string(status)};
  }));
  return std::make_unique<CudnnAttention>(handle, 10 * major + minor, most_score_bytes,
                                          most_workspace_bytes);
}

absl::Status DescribeCudnnAttention(const std::string& device, int capability,
                                    const AttentionShape& shape, NumberType type) {
  RETURN_IF_ERROR(OpenLibrary());
  const auto properties = std::make_shared<fe::DeviceProperties>();
  RETURN_IF_ERROR(Checked("the device", [&] {
    return properties->deserialize(std::vector<uint8_t>(device.begin(), device.end()));
  }));
  const auto check = [&](const char* what, const std::shared_ptr<Graph>& graph) {
    graph->set_device_properties(properties);
    return Checked(what, [&] {
      const fe::error_t error = graph->validate();
      return error.is_good() ? graph->build_operation_graph() : error;
    });
  };
  ASSIGN_OR_RETURN(const Piece piece, PieceOf(shape, kCudnnScoreBytes));
  const Piece all{shape.batch, shape.kv_heads};
  RETURN_IF_ERROR(check("attention", Graphs(shape, all, type, capability).Forward()));
  return check("attention's backward", Graphs(shape, piece, type, capability).Backward());
}

}  // namespace strata::kernels::cuda
