#include "device/standin/cublaslt/attributes.h"

#include <utility>

namespace strata::standin::cublaslt {

AttributeTable::Place AttributeTable::Find(int id) const {
  size_t offset = 0;
  for (const Attribute& row : rows_) {
    if (row.id == id) return {&row, offset};
    offset += row.bytes;
  }
  return {nullptr, 0};
}

void AttributeTable::Initialise(void* data) const {
  for (const Attribute& row : rows_) Set(data, row.id, &row.initial, row.bytes);
}

cublasStatus_t AttributeTable::Set(void* data, int id, const void* from, size_t bytes) const {
  const Place place = Find(id);
  if (data == nullptr || from == nullptr || place.row == nullptr || bytes != place.row->bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(static_cast<std::byte*>(data) + place.offset, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t AttributeTable::Get(const void* data, int id, void* to, size_t bytes,
                                   size_t* written) const {
  const Place place = Find(id);
  if (data == nullptr || place.row == nullptr || (bytes == 0 && written == nullptr) ||
      (bytes != 0 && (to == nullptr || bytes != place.row->bytes))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (written != nullptr) *written = place.row->bytes;
  if (bytes != 0) std::memcpy(to, static_cast<const std::byte*>(data) + place.offset, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool AttributeTable::IsKnown(const void* data) const {
  const std::byte* at = static_cast<const std::byte*>(data);
  for (const Attribute& row : rows_) {
    if (row.known == Known::kInitialOnly && std::memcmp(at, &row.initial, row.bytes) != 0) {
      return false;
    }
    at += row.bytes;
  }
  return true;
}

const AttributeTable& ProductAttributes() {
  constexpr Known kYes = Known::kYes, kInitial = Known::kInitialOnly;
  static const auto* const table = new AttributeTable({
      {CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 8, kYes},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_AMAX_D_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER, 8, kYes},
      {CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR, 8, kInitial},
      {CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 4, kYes},
      {CUBLASLT_MATMUL_DESC_SCALE_TYPE, 4, kYes},
      {CUBLASLT_MATMUL_DESC_POINTER_MODE, 4, kYes, CUBLASLT_POINTER_MODE_HOST},
      {CUBLASLT_MATMUL_DESC_TRANSA, 4, kYes, CUBLAS_OP_N},
      {CUBLASLT_MATMUL_DESC_TRANSB, 4, kYes, CUBLAS_OP_N},
      {CUBLASLT_MATMUL_DESC_TRANSC, 4, kInitial, CUBLAS_OP_N},
      {CUBLASLT_MATMUL_DESC_FILL_MODE, 4, kInitial, CUBLAS_FILL_MODE_FULL},
      {CUBLASLT_MATMUL_DESC_EPILOGUE, 4, kYes, CUBLASLT_EPILOGUE_DEFAULT},
      {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, 4, kYes},
      {16, 4, kInitial},  // it has no name in the header
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, 4, kInitial, -1},
      {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 4, kYes, -1},
      {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, 4, kInitial},
      {CUBLASLT_MATMUL_DESC_B_SCALE_MODE, 4, kInitial},
      {CUBLASLT_MATMUL_DESC_C_SCALE_MODE, 4, kInitial},
      {CUBLASLT_MATMUL_DESC_D_SCALE_MODE, 4, kInitial},
      {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE, 4, kInitial},
      {CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE, 4, kInitial},
      {CUBLASLT_MATMUL_DESC_FAST_ACCUM, 1, kInitial},
  });
  return *table;
}

const AttributeTable& LayoutAttributes() {
  static const auto* const table = new AttributeTable({
      {CUBLASLT_MATRIX_LAYOUT_ROWS, 8, Known::kYes},
      {CUBLASLT_MATRIX_LAYOUT_COLS, 8, Known::kYes},
      {CUBLASLT_MATRIX_LAYOUT_LD, 8, Known::kYes},
      {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8, Known::kYes},
      {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 8, Known::kInitialOnly},
      {CUBLASLT_MATRIX_LAYOUT_TYPE, 4, Known::kYes},
      {CUBLASLT_MATRIX_LAYOUT_ORDER, 4, Known::kYes, CUBLASLT_ORDER_COL},
      {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4, Known::kYes, 1},
      {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 4, Known::kInitialOnly, CUBLASLT_BATCH_MODE_STRIDED},
  });
  return *table;
}

const AttributeTable& PreferenceAttributes() {
  constexpr Known kYes = Known::kYes, kInitial = Known::kInitialOnly;
  static const auto* const table = new AttributeTable({
      {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8, kYes},
      {CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, kInitial, -1},
      {CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4, kInitial, CUBLASLT_SEARCH_BEST_FIT},
      {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, kYes, CUBLASLT_REDUCTION_SCHEME_MASK},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, kYes, 256},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, kYes, 256},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, kYes, 256},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, kYes, 256},
      {CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4, kInitial},
  });
  return *table;
}

}  // namespace strata::standin::cublaslt
