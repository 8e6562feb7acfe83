#include "device/standin/cublaslt/problem.h"

#include <algorithm>

#include "device/standin/cublaslt/attributes.h"

namespace strata::standin::cublaslt {
namespace {

Matrix ReadMatrix(cublasLtMatrixLayout_t layout) {
  const auto wide = [&](int id) { return LayoutAttributes().ValueOf<int64_t>(layout, id); };
  const auto narrow = [&](int id) { return LayoutAttributes().ValueOf<int32_t>(layout, id); };
  Matrix matrix;
  matrix.type = static_cast<cudaDataType>(narrow(CUBLASLT_MATRIX_LAYOUT_TYPE));
  matrix.by_rows = narrow(CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_ROW;
  matrix.rows = wide(CUBLASLT_MATRIX_LAYOUT_ROWS);
  matrix.columns = wide(CUBLASLT_MATRIX_LAYOUT_COLS);
  matrix.leading = wide(CUBLASLT_MATRIX_LAYOUT_LD);
  matrix.batch = narrow(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  matrix.batch_stride = wide(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
  return matrix;
}

bool HasKnownOrder(cublasLtMatrixLayout_t layout) {
  const auto order = LayoutAttributes().ValueOf<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER);
  return order == CUBLASLT_ORDER_COL || order == CUBLASLT_ORDER_ROW;
}

bool IsPossible(const Matrix& matrix, const Problem& problem) {
  return matrix.rows >= 1 && matrix.columns >= 1 && matrix.leading >= matrix.length() &&
         matrix.batch >= 1 && matrix.batch == problem.d.batch;
}

// Columns and types of the manual's table for f32 sums (cublasLtMatmul(), regular matrices).
bool HasSupportedTypes(const Problem& p, cudaDataType scale, int bias_type) {
  const cudaDataType type = p.a.type, out = p.d.type;
  if (p.b.type != type || p.c.type != out || scale != CUDA_R_32F) return false;
  if (p.has_bias && bias_type != -1 && bias_type != out) return false;
  if (p.compute == CUBLAS_COMPUTE_32F_FAST_TF32) return type == CUDA_R_32F && out == CUDA_R_32F;
  if (p.compute != CUBLAS_COMPUTE_32F && p.compute != CUBLAS_COMPUTE_32F_PEDANTIC) return false;
  return BytesOf(type) != 0 && (out == type || out == CUDA_R_32F);
}

// Factors of scale are for types of 8 bits; with others the header promises INVALID_VALUE.
bool HasScalePointers(cublasLtMatmulDesc_t product) {
  for (const int id :
       {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER,
        CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER}) {
    if (ProductAttributes().ValueOf<const void*>(product, id) != nullptr) return true;
  }
  return false;
}

bool IsTranspose(int32_t operation) { return operation == CUBLAS_OP_T || operation == CUBLAS_OP_C; }

// Whether all lines of a matrix begin at packets if its first one does.
bool HasPackets(const Matrix& matrix) {
  const int64_t bytes = BytesOf(matrix.type);
  return matrix.leading * bytes % kPacketBytes == 0 &&
         matrix.batch_stride * bytes % kPacketBytes == 0;
}

}  // namespace

int64_t BytesOf(cudaDataType type) {
  if (type == CUDA_R_32F) return 4;
  return type == CUDA_R_16BF || type == CUDA_R_16F ? 2 : 0;
}

cublasStatus_t ReadProblem(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                           cublasLtMatrixLayout_t d, Problem& p) {
  if (product == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  for (const cublasLtMatrixLayout_t layout : {a, b, c, d}) {
    if (layout == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const AttributeTable& table = ProductAttributes();
  const auto value = [&](int id) { return table.ValueOf<int32_t>(product, id); };
  const int32_t operation_a = value(CUBLASLT_MATMUL_DESC_TRANSA),
                operation_b = value(CUBLASLT_MATMUL_DESC_TRANSB),
                epilogue = value(CUBLASLT_MATMUL_DESC_EPILOGUE),
                pointer_mode = value(CUBLASLT_MATMUL_DESC_POINTER_MODE);
  p.a = ReadMatrix(a);
  p.b = ReadMatrix(b);
  p.c = ReadMatrix(c);
  p.d = ReadMatrix(d);
  p.transposed_a = IsTranspose(operation_a);
  p.transposed_b = IsTranspose(operation_b);
  p.m = p.d.rows;
  p.n = p.d.columns;
  p.k = p.transposed_a ? p.a.rows : p.a.columns;
  p.compute = static_cast<cublasComputeType_t>(value(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE));
  p.scalars_on_device = pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  p.has_bias = epilogue == CUBLASLT_EPILOGUE_BIAS;
  p.bias = table.ValueOf<const void*>(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
  p.bias_stride = table.ValueOf<int64_t>(product, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);

  for (const int32_t operation : {operation_a, operation_b}) {
    if (operation != CUBLAS_OP_N && !IsTranspose(operation)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  for (const Matrix* matrix : {&p.a, &p.b, &p.c, &p.d}) {
    if (!IsPossible(*matrix, p)) return CUBLAS_STATUS_INVALID_VALUE;
  }
  const int64_t rows_a = p.transposed_a ? p.a.columns : p.a.rows,
                rows_b = p.transposed_b ? p.b.columns : p.b.rows,
                columns_b = p.transposed_b ? p.b.rows : p.b.columns;
  if (rows_a != p.m || rows_b != p.k || columns_b != p.n || p.c.rows != p.m || p.c.columns != p.n ||
      HasScalePointers(product)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  bool supported =
      table.IsKnown(product) && (epilogue == CUBLASLT_EPILOGUE_DEFAULT || p.has_bias) &&
      (pointer_mode == CUBLASLT_POINTER_MODE_HOST || p.scalars_on_device) &&
      HasSupportedTypes(p, static_cast<cudaDataType>(value(CUBLASLT_MATMUL_DESC_SCALE_TYPE)),
                        value(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE));
  for (const cublasLtMatrixLayout_t layout : {a, b, c, d}) {
    supported = supported && HasKnownOrder(layout) && LayoutAttributes().IsKnown(layout);
  }
  return supported ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t ReadPreference(cublasLtMatmulPreference_t from, Preference& preference) {
  const AttributeTable& table = PreferenceAttributes();
  if (from == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (!table.IsKnown(from)) return CUBLAS_STATUS_NOT_SUPPORTED;
  preference.most_workspace_bytes =
      table.ValueOf<uint64_t>(from, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  preference.reduction_schemes =
      table.ValueOf<uint32_t>(from, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  for (int i = 0; i < 4; ++i) {
    preference.alignment[i] =
        table.ValueOf<uint32_t>(from, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i);
  }
  return CUBLAS_STATUS_SUCCESS;
}

uint64_t Algorithm::WorkspaceBytes(const Problem& p) const {
  if (splits == 1) return 0;
  const int64_t bytes =
      reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ? sizeof(float) : BytesOf(p.d.type);
  return static_cast<uint64_t>(p.m * p.n * p.d.batch * splits * bytes);
}

bool Algorithm::Suits(const Problem& p) const {
  return magic == kMagic && type == p.a.type && out_type == p.d.type && compute == p.compute &&
         splits <= p.k &&
         (alignment < kPacketBytes ||
          (HasPackets(p.a) && HasPackets(p.b) && HasPackets(p.c) && HasPackets(p.d)));
}

std::vector<Algorithm> Choose(const Problem& p, const Preference& preference) {
  // Few tiles and a long k: parts of k keep a device busy.
  constexpr int64_t kFewElements = 1 << 16, kLongK = 64;
  constexpr uint32_t kSplits = 4;
  Algorithm algorithm;
  algorithm.type = p.a.type;
  algorithm.out_type = p.d.type;
  algorithm.compute = p.compute;
  algorithm.bias_apart = *std::ranges::min_element(preference.alignment) < kPacketBytes ? 1 : 0;
  std::vector<Algorithm> found;
  const auto offer = [&](uint32_t alignment) {
    const int64_t needed[] = {BytesOf(p.a.type), BytesOf(p.b.type), BytesOf(p.c.type),
                              BytesOf(p.d.type)};
    for (int i = 0; i < 4; ++i) {
      if (preference.alignment[i] < std::max<int64_t>(alignment, needed[i])) return;
    }
    algorithm.alignment = alignment;
    if (!algorithm.Suits(p)) return;
    for (const uint32_t scheme :
         {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE}) {
      Algorithm split = algorithm;
      split.splits = kSplits;
      split.reduction = scheme;
      if (p.m * p.n <= kFewElements && p.k >= kLongK &&
          (preference.reduction_schemes & scheme) != 0 &&
          split.WorkspaceBytes(p) <= preference.most_workspace_bytes) {
        found.push_back(split);
      }
    }
    found.push_back(algorithm);
  };
  offer(kPacketBytes);
  offer(1);
  return found;
}

}  // namespace strata::standin::cublaslt
