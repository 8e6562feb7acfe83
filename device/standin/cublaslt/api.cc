// cuBLASLt's C API: the functions that we call.
#include <cublasLt.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "device/standin/cublaslt/attributes.h"
#include "device/standin/cublaslt/problem.h"
#include "device/standin/cublaslt/product.h"
#include "device/standin/runtime.h"

struct cublasLtContext {};

namespace strata::standin::cublaslt {
namespace {

static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

std::set<std::unique_ptr<cublasLtContext>>& Contexts() {
  static auto* const contexts = new std::set<std::unique_ptr<cublasLtContext>>;
  return *contexts;
}

// An error that a test asked for by name; the device's own concern only calls that reach it.
cublasStatus_t StatusOf(cudaError_t error) {
  if (error == cudaSuccess) return CUBLAS_STATUS_SUCCESS;
  if (error == cudaErrorMemoryAllocation) return CUBLAS_STATUS_ALLOC_FAILED;
  return error == cudaErrorNotSupported ? CUBLAS_STATUS_NOT_SUPPORTED
                                        : CUBLAS_STATUS_EXECUTION_FAILED;
}

// A call that the device has no part in.
template <typename Body>
cublasStatus_t OnHost(const char* name, Body&& body) {
  const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
  const cudaError_t error = Runtime::Get().faults().CountCall(name);
  return error != cudaSuccess ? StatusOf(error) : body();
}

// One that fails where the device has failed.
template <typename Body>
cublasStatus_t OnDevice(const char* name, InCapture in_capture, Body&& body) {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const cudaError_t error = Call(name, in_capture, [&](Runtime& runtime) {
    status = body(runtime);
    return cudaSuccess;
  });
  return error != cudaSuccess ? StatusOf(error) : status;
}

template <typename Opaque>
cublasStatus_t Create(const char* name, const AttributeTable& table, Opaque** made) {
  return OnHost(name, [&] {
    if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *made = new Opaque{};
    table.Initialise((*made)->data);
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <typename Opaque>
cublasStatus_t Destroy(const char* name, Opaque* descriptor) {
  return OnHost(name, [&] {
    delete descriptor;
    return CUBLAS_STATUS_SUCCESS;
  });
}

bool IsLive(cublasLtHandle_t handle) { return FindOwned(Contexts(), handle) != nullptr; }

// The product that a call of cublasLtMatmul asks for; its problem has been read.
cublasStatus_t Complete(const cublasLtMatmulAlgo_t* algorithm, const void* alpha, const void* beta,
                        bool same_layouts, Product& product) {
  constexpr uint64_t kWorkspaceAlignment = 256;
  const Problem& problem = product.problem;
  const bool host = !problem.scalars_on_device;
  if (alpha == nullptr || beta == nullptr || product.a == nullptr || product.b == nullptr ||
      product.d == nullptr || (problem.has_bias && problem.bias == nullptr)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  product.alpha = host ? *static_cast<const float*>(alpha) : 0;
  product.beta = host ? *static_cast<const float*>(beta) : 0;
  product.alpha_on_device = host ? nullptr : alpha;
  product.beta_on_device = host ? nullptr : beta;
  const bool reads_c = !host || product.beta != 0;
  if ((reads_c && product.c == nullptr) || (product.c == product.d && !same_layouts) ||
      reinterpret_cast<uint64_t>(product.workspace) % kWorkspaceAlignment != 0 ||
      (product.workspace == nullptr && product.workspace_bytes > 0)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (algorithm != nullptr) {
    std::memcpy(static_cast<void*>(&product.algorithm), algorithm, sizeof product.algorithm);
  } else {
    const std::vector<Algorithm> found =
        Choose(problem, {.most_workspace_bytes = product.workspace_bytes});
    if (found.empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
    product.algorithm = found.front();
  }
  if (!product.algorithm.Suits(problem)) return CUBLAS_STATUS_NOT_SUPPORTED;
  return product.algorithm.WorkspaceBytes(problem) > product.workspace_bytes
             ? CUBLAS_STATUS_INVALID_VALUE
             : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Queue(Runtime& runtime, const Product& product, cudaStream_t handle) {
  Stream* const stream = runtime.Find(handle, "a matrix product");
  if (stream == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Problem& p = product.problem;
  runtime.Enqueue(*stream,
                  "a matrix product [" + std::to_string(p.m) + ", " + std::to_string(p.k) +
                      "] x [" + std::to_string(p.k) + ", " + std::to_string(p.n) + "]",
                  [product, &machine = runtime.machine()](OperationId id) {
                    RunProduct(product, machine, id);
                  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace strata::standin::cublaslt

using strata::standin::InCapture;
using strata::standin::Runtime;
using strata::standin::cublaslt::Algorithm;
using strata::standin::cublaslt::IsLive;
using strata::standin::cublaslt::LayoutAttributes;
using strata::standin::cublaslt::OnDevice;
using strata::standin::cublaslt::OnHost;
using strata::standin::cublaslt::Preference;
using strata::standin::cublaslt::PreferenceAttributes;
using strata::standin::cublaslt::Problem;
using strata::standin::cublaslt::Product;
using strata::standin::cublaslt::ProductAttributes;

namespace cublaslt = strata::standin::cublaslt;

extern "C" {

size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

const char* cublasLtGetStatusName(cublasStatus_t status) {
#define STRATA_STANDIN_NAME(name) \
  case name:                      \
    return #name;
  switch (status) {
    STRATA_STANDIN_NAME(CUBLAS_STATUS_SUCCESS)
    STRATA_STANDIN_NAME(CUBLAS_STATUS_NOT_INITIALIZED)
    STRATA_STANDIN_NAME(CUBLAS_STATUS_ALLOC_FAILED)
    STRATA_STANDIN_NAME(CUBLAS_STATUS_INVALID_VALUE)
    STRATA_STANDIN_NAME(CUBLAS_STATUS_EXECUTION_FAILED)
    STRATA_STANDIN_NAME(CUBLAS_STATUS_NOT_SUPPORTED)
    default:
      return "a status that the stand-in has no name for";
  }
#undef STRATA_STANDIN_NAME
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  return OnDevice("cublasLtCreate", InCapture::kForbidden, [&](Runtime&) {
    if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = cublaslt::Contexts().insert(std::make_unique<cublasLtContext>()).first->get();
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return OnHost("cublasLtDestroy", [&] {
    return strata::standin::EraseOwned(cublaslt::Contexts(), handle) ? CUBLAS_STATUS_SUCCESS
                                                                     : CUBLAS_STATUS_INVALID_VALUE;
  });
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  const cublasStatus_t status =
      cublaslt::Create("cublasLtMatmulDescCreate", ProductAttributes(), product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  ProductAttributes().Set(*product, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, &compute, sizeof compute);
  return ProductAttributes().Set(*product, CUBLASLT_MATMUL_DESC_SCALE_TYPE, &scale, sizeof scale);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  return cublaslt::Destroy("cublasLtMatmulDescDestroy", product);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  return OnHost("cublasLtMatmulDescSetAttribute",
                [&] { return ProductAttributes().Set(product, attribute, from, bytes); });
}

cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute, void* to,
                                              size_t bytes, size_t* written) {
  return OnHost("cublasLtMatmulDescGetAttribute",
                [&] { return ProductAttributes().Get(product, attribute, to, bytes, written); });
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  const auto& table = LayoutAttributes();
  const cublasStatus_t status = cublaslt::Create("cublasLtMatrixLayoutCreate", table, layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  table.Set(*layout, CUBLASLT_MATRIX_LAYOUT_TYPE, &type, sizeof type);
  table.Set(*layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows);
  table.Set(*layout, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns);
  return table.Set(*layout, CUBLASLT_MATRIX_LAYOUT_LD, &leading, sizeof leading);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return cublaslt::Destroy("cublasLtMatrixLayoutDestroy", layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* from, size_t bytes) {
  return OnHost("cublasLtMatrixLayoutSetAttribute",
                [&] { return LayoutAttributes().Set(layout, attribute, from, bytes); });
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, void* to,
                                                size_t bytes, size_t* written) {
  return OnHost("cublasLtMatrixLayoutGetAttribute",
                [&] { return LayoutAttributes().Get(layout, attribute, to, bytes, written); });
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return cublaslt::Create("cublasLtMatmulPreferenceCreate", PreferenceAttributes(), preference);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return cublaslt::Destroy("cublasLtMatmulPreferenceDestroy", preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, size_t bytes) {
  return OnHost("cublasLtMatmulPreferenceSetAttribute",
                [&] { return PreferenceAttributes().Set(preference, attribute, from, bytes); });
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void* to, size_t bytes, size_t* written) {
  return OnHost("cublasLtMatmulPreferenceGetAttribute", [&] {
    return PreferenceAttributes().Get(preference, attribute, to, bytes, written);
  });
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wanted, int count,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* returned) {
  return OnHost("cublasLtMatmulAlgoGetHeuristic", [&] {
    if (!IsLive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (count < 1 || results == nullptr || returned == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    Problem problem;
    Preference preference;
    cublasStatus_t status = cublaslt::ReadProblem(product, a, b, c, d, problem);
    if (status == CUBLAS_STATUS_SUCCESS) status = cublaslt::ReadPreference(wanted, preference);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (const Algorithm& algorithm : cublaslt::Choose(problem, preference)) {
      if (*returned == count) break;
      cublasLtMatmulHeuristicResult_t& result = results[(*returned)++];
      result = {};
      std::memcpy(&result.algo, &algorithm, sizeof algorithm);
      result.workspaceSize = algorithm.WorkspaceBytes(problem);
      result.state = CUBLAS_STATUS_SUCCESS;
      result.wavesCount = 1;
    }
    return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void* alpha, const void* a, cublasLtMatrixLayout_t layout_a,
                              const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t layout_c, void* d,
                              cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  return OnDevice("cublasLtMatmul", InCapture::kAllowed, [&](Runtime& runtime) {
    if (!IsLive(handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
    Product product{
        .a = a, .b = b, .c = c, .d = d, .workspace = workspace, .workspace_bytes = workspace_bytes};
    cublasStatus_t status =
        cublaslt::ReadProblem(description, layout_a, layout_b, layout_c, layout_d, product.problem);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    const bool same_layouts =
        std::equal(std::begin(layout_c->data), std::end(layout_c->data), layout_d->data);
    status = cublaslt::Complete(algorithm, alpha, beta, same_layouts, product);
    return status == CUBLAS_STATUS_SUCCESS ? cublaslt::Queue(runtime, product, stream) : status;
  });
}

}  // extern "C"
