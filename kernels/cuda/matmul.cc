#include "kernels/cuda/matmul.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/mistake.h"

namespace strata::kernels::cuda {
namespace {

#ifdef STRATA_CUDA_PLANT_MISTAKES
bool Planted(Mistake mistake) { return PlantedMistake() == mistake; }
#else
constexpr bool Planted(Mistake) { return false; }
#endif

constexpr int kMostAlignment = 256;

absl::Status ToStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message = absl::StrCat("cuBLASLt: ", what, ": ", cublasLtGetStatusName(status));
  switch (status) {
    case CUBLAS_STATUS_INVALID_VALUE:
      return absl::InvalidArgumentError(message);
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return absl::UnimplementedError(message);
    case CUBLAS_STATUS_ALLOC_FAILED:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

cudaDataType DataTypeOf(NumberType type) {
  if (type == NumberType::kBF16) return CUDA_R_16BF;
  return type == NumberType::kF16 ? CUDA_R_16F : CUDA_R_32F;
}

int BytesOf(NumberType type) { return type == NumberType::kF32 ? 4 : 2; }

absl::Status Check(const MatmulShape& shape, const MatmulOptions& options) {
  const int least = BytesOf(shape.type);
  if (options.alignment < least || options.alignment > kMostAlignment ||
      (options.alignment & (options.alignment - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("matrix product: pointers aligned to ", options.alignment,
                     " bytes; it must be a power of two from ", least, " to ", kMostAlignment));
  }
  if (options.bias && options.alignment < kBiasAlignment) {
    return absl::InvalidArgumentError(
        absl::StrCat("matrix product: with a bias, pointers are aligned to ", kBiasAlignment,
                     " bytes, not to ", options.alignment));
  }
  if (options.tf32 && shape.type != NumberType::kF32) {
    return absl::InvalidArgumentError("matrix product: TF32 is for factors of f32");
  }
  return absl::OkStatus();
}

absl::Status Set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
                 const auto& value) {
  return ToStatus(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
                  "an attribute of a product");
}

absl::Status Set(cublasLtMatmulPreference_t preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
  return ToStatus(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
                  "an attribute of a preference");
}

// What is stored by rows, [rows, columns], is by columns its transpose.
absl::Status Transposed(NumberType type, int64_t rows, int64_t columns, int64_t row_distance,
                        cublasLtMatrixLayout_t& layout) {
  return ToStatus(
      cublasLtMatrixLayoutCreate(&layout, DataTypeOf(type), columns, rows, row_distance),
      "a layout");
}

}  // namespace

int PointerAlignment(std::initializer_list<const void*> pointers) {
  uintptr_t bits = kMostAlignment;
  for (const void* pointer : pointers) bits |= reinterpret_cast<uintptr_t>(pointer);
  return static_cast<int>(bits & -bits);
}

MatmulPlan::MatmulPlan(cublasLtHandle_t handle, int64_t workspace_bytes, const MatmulShape& shape,
                       const MatmulOptions& options)
    : handle_(handle), workspace_bytes_(workspace_bytes), shape_(shape), options_(options) {}

MatmulPlan::~MatmulPlan() {
  for (const cublasLtMatrixLayout_t layout : {a_, b_, c_}) {
    if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
  }
  if (product_ != nullptr) cublasLtMatmulDescDestroy(product_);
}

// The library computes by columns: c^T = op(b)^T op(a)^T. What it calls A is our b, its B our a,
// each as it is stored, and each transposed where we say that it is.
absl::Status MatmulPlan::Describe() {
  const MatmulShape& s = shape_;
  const bool tf32 = options_.tf32 || (s.type == NumberType::kF32 && Planted(Mistake::kTf32Unasked));
  const cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  RETURN_IF_ERROR(ToStatus(cublasLtMatmulDescCreate(&product_, compute, CUDA_R_32F), "a product"));
  int64_t lda = s.lda, ldb = s.ldb;
  int32_t of_a = s.trans_a ? CUBLAS_OP_T : CUBLAS_OP_N,
          of_b = s.trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  if (Planted(Mistake::kRowDistancesSwapped)) std::swap(lda, ldb);
  if (Planted(Mistake::kTransposesSwapped)) std::swap(of_a, of_b);
  RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_TRANSA, of_b));
  RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_TRANSB, of_a));
  if (options_.bias) {
    RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    // Run sets it. The header says that its alignment matters when an algorithm is chosen; in fact
    // some need 16 bytes whatever it is.
    RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                        reinterpret_cast<const void*>(intptr_t{kBiasAlignment})));
  }
  RETURN_IF_ERROR(Transposed(s.type, s.trans_a ? s.k : s.m, s.trans_a ? s.m : s.k, lda, a_));
  RETURN_IF_ERROR(Transposed(s.type, s.trans_b ? s.n : s.k, s.trans_b ? s.k : s.n, ldb, b_));
  if (Planted(Mistake::kFactorsNotSwapped)) std::swap(a_, b_);
  return Transposed(s.out_type, s.m, s.n, s.ldc, c_);
}

absl::Status MatmulPlan::ChooseAlgorithm() {
  cublasLtMatmulPreference_t preference = nullptr;
  RETURN_IF_ERROR(ToStatus(cublasLtMatmulPreferenceCreate(&preference), "a preference"));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t,
                        decltype(&cublasLtMatmulPreferenceDestroy)>
      owner(preference, &cublasLtMatmulPreferenceDestroy);
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                      static_cast<uint64_t>(workspace_bytes_)));
  // The other schemes add up parts in c's type.
  const uint32_t schemes =
      Planted(Mistake::kSumsInOutputType)
          ? CUBLASLT_REDUCTION_SCHEME_MASK
          : CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes));
  const int alignment = Planted(Mistake::kAlignmentNotTold) ? kMostAlignment : options_.alignment;
  const uint32_t of_factors = alignment, of_c = std::max(alignment, BytesOf(shape_.out_type));
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_factors));
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_factors));
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c));
  RETURN_IF_ERROR(Set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c));
  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  RETURN_IF_ERROR(ToStatus(cublasLtMatmulAlgoGetHeuristic(handle_, product_, b_, a_, c_, c_,
                                                          preference, 1, &result, &found),
                           "the choice of an algorithm"));
  if (found == 0) return ToStatus(CUBLAS_STATUS_NOT_SUPPORTED, "the choice of an algorithm");
  algorithm_ = result.algo;
  return ToStatus(result.state, "the choice of an algorithm");
}

absl::Status MatmulPlan::Run(cudaStream_t stream, const void* a, const void* b, void* c,
                             void* workspace, const void* bias) const {
  if ((bias != nullptr) != options_.bias) {
    return absl::InvalidArgumentError(
        options_.bias ? "matrix product: the plan has a bias, the call has none"
                      : "matrix product: the call has a bias, the plan has none");
  }
  const int alignment = PointerAlignment({a, b, c});
  if (alignment < options_.alignment && !Planted(Mistake::kAlignmentNotTold)) {
    return absl::InvalidArgumentError(absl::StrCat("matrix product: pointers are aligned to ",
                                                   alignment, " bytes, the plan was made for ",
                                                   options_.alignment));
  }
  if (PointerAlignment({bias}) < kBiasAlignment && !Planted(Mistake::kBiasUnaligned)) {
    return absl::InvalidArgumentError("matrix product: the bias is not aligned to 16 bytes");
  }
  if (options_.bias && !Planted(Mistake::kBiasNotSet)) {
    RETURN_IF_ERROR(Set(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
  }
  if (Planted(Mistake::kFactorsNotSwapped)) std::swap(a, b);
  const size_t workspace_bytes =
      workspace_bytes_ + (Planted(Mistake::kWorkspaceTooLarge) ? kMostAlignment : 0);
  const float alpha = 1, beta = shape_.accumulate && !Planted(Mistake::kNoBeta) ? 1 : 0;
  return ToStatus(cublasLtMatmul(handle_, product_, &alpha, b, b_, a, a_, &beta, c, c_, c, c_,
                                 &algorithm_, workspace, workspace_bytes, stream),
                  "a product");
}

absl::StatusOr<std::unique_ptr<MatmulLibrary>> MatmulLibrary::Create() {
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) {
    error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (error != cudaSuccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("matrix products need a CUDA device: ", cudaGetErrorString(error)));
  }
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(ToStatus(cublasLtCreate(&handle), "its handle"));
  return std::unique_ptr<MatmulLibrary>(new MatmulLibrary(handle, MatmulWorkspaceBytes(major)));
}

MatmulLibrary::~MatmulLibrary() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

absl::StatusOr<const MatmulPlan*> MatmulLibrary::Plan(const MatmulShape& shape,
                                                      const MatmulOptions& options) {
  ASSIGN_OR_RETURN(const MatmulShape s, CompleteShape(shape));
  RETURN_IF_ERROR(Check(s, options));
  const Key key = {s.m,
                   s.n,
                   s.k,
                   s.trans_a,
                   s.trans_b,
                   s.lda,
                   s.ldb,
                   s.ldc,
                   s.accumulate,
                   static_cast<int64_t>(s.type),
                   static_cast<int64_t>(s.out_type),
                   options.tf32,
                   options.bias,
                   options.alignment};
  if (const auto found = plans_.find(key); found != plans_.end()) return found->second.get();
  std::unique_ptr<MatmulPlan> plan(new MatmulPlan(handle_, workspace_bytes_, s, options));
  absl::Status status = plan->Describe();
  if (status.ok()) status = plan->ChooseAlgorithm();
  if (!status.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat("matrix product of ", s.m, " x ", s.k, " and ", s.k, " x ", s.n,
                     ", pointers aligned to ", options.alignment, " bytes, ",
                     workspace_bytes_ >> 20, " MiB of workspace: ", status.message()));
  }
  return (plans_[key] = std::move(plan)).get();
}

}  // namespace strata::kernels::cuda
