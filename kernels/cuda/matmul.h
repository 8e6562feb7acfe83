// Matrix products on CUDA devices by cuBLASLt: what kernels/matmul.h computes, for its shapes.
//
// A MatmulLibrary holds the library's handle and a plan per shape: descriptors, layouts and the
// algorithm, chosen when a program is loaded. Running a plan is one launch: it allocates nothing,
// waits for nothing, and may be captured in a graph.
//
// Sums are f32 in any case and c is rounded once: where k is split, parts are summed as f32. The
// same shape on the same device gives the same bits. f32 factors are multiplied as f32 unless a
// product asks for TF32.
#ifndef STRATA_KERNELS_CUDA_MATMUL_H_
#define STRATA_KERNELS_CUDA_MATMUL_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/matmul.h"

namespace strata::kernels::cuda {

// What every plan's workspace has on devices of this compute capability (its major number): what
// cuBLAS's manual recommends for Hopper, and for what came before. Known before there is a device,
// so that it can be planned for.
constexpr int64_t MatmulWorkspaceBytes(int major) { return int64_t{major >= 9 ? 32 : 4} << 20; }

// What a product is besides its shape.
struct MatmulOptions {
  bool tf32 = false;  // of f32 factors, 10 bits of mantissa: on tensor cores
  bool bias = false;  // bias[n], of c's type, is added to every row before c is rounded
  // What a, b and c of every call are multiples of, in bytes (PointerAlignment): a power of two
  // from the size of a's elements to 256. Below 16, algorithms are few and slow.
  int alignment = 256;
};

// What a bias, and a, b and c beside one, are multiples of at least, in bytes. Measured on an H200:
// for less aligned matrices cuBLASLt may add the bias in a pass of its own, to a c that was rounded
// before.
constexpr int kBiasAlignment = 16;

// The largest power of two up to 256 that divides all of them.
int PointerAlignment(std::initializer_list<const void*> pointers);

class MatmulPlan {
 public:
  ~MatmulPlan();
  MatmulPlan(const MatmulPlan&) = delete;
  MatmulPlan& operator=(const MatmulPlan&) = delete;

  // Queues the product. All pointers are to device memory. `workspace` holds the library's
  // workspace_bytes() at a multiple of 256 and is used by one product at a time: streams do not
  // share one unless events order them. `bias`: null unless the plan's options have one, and at a
  // multiple of kBiasAlignment: algorithms are chosen without a look at it. One caller at a time
  // per plan. Errors: INVALID_ARGUMENT for pointers that are less aligned than that, or a bias
  // where there is none or the reverse; what cuBLASLt returns.
  absl::Status Run(cudaStream_t stream, const void* a, const void* b, void* c, void* workspace,
                   const void* bias = nullptr) const;

  const MatmulShape& shape() const { return shape_; }  // with its row distances
  const MatmulOptions& options() const { return options_; }

 private:
  friend class MatmulLibrary;
  MatmulPlan(cublasLtHandle_t handle, int64_t workspace_bytes, const MatmulShape& shape,
             const MatmulOptions& options);
  absl::Status Describe();
  absl::Status ChooseAlgorithm();

  cublasLtHandle_t handle_;
  int64_t workspace_bytes_;
  MatmulShape shape_;
  MatmulOptions options_;
  cublasLtMatmulDesc_t product_ = nullptr;
  // As cuBLASLt sees them, by columns: the transposes of b, a and c.
  cublasLtMatrixLayout_t b_ = nullptr, a_ = nullptr, c_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_ = {};
};

// cuBLASLt on the device that is current when it is created. One caller at a time.
class MatmulLibrary {
 public:
  // Errors: no device, or the library refuses it.
  static absl::StatusOr<std::unique_ptr<MatmulLibrary>> Create();
  ~MatmulLibrary();
  MatmulLibrary(const MatmulLibrary&) = delete;
  MatmulLibrary& operator=(const MatmulLibrary&) = delete;

  // The plan, made at the first call for this shape and options; it lives as long as the library.
  // Errors: INVALID_ARGUMENT for impossible shapes and alignments, UNIMPLEMENTED where cuBLASLt has
  // no algorithm.
  absl::StatusOr<const MatmulPlan*> Plan(const MatmulShape& shape,
                                         const MatmulOptions& options = {});

  int64_t workspace_bytes() const { return workspace_bytes_; }  // of every plan

 private:
  using Key = std::array<int64_t, 14>;
  MatmulLibrary(cublasLtHandle_t handle, int64_t workspace_bytes)
      : handle_(handle), workspace_bytes_(workspace_bytes) {}

  cublasLtHandle_t handle_;
  int64_t workspace_bytes_;
  std::map<Key, std::unique_ptr<MatmulPlan>> plans_;
};

}  // namespace strata::kernels::cuda

#endif  // STRATA_KERNELS_CUDA_MATMUL_H_
