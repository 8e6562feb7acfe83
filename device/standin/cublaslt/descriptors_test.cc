// What cuBLASLt's descriptors take, refuse and answer. The real library does so without a GPU: the
// twin of this test that links it passes anywhere.
#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::standin {
namespace {

constexpr cublasStatus_t kOk = CUBLAS_STATUS_SUCCESS, kInvalid = CUBLAS_STATUS_INVALID_VALUE;

// One kind of descriptor by its functions.
struct Descriptor {
  std::function<cublasStatus_t(int, const void*, size_t)> set;
  std::function<cublasStatus_t(int, void*, size_t, size_t*)> get;
};

struct Expected {
  int id;
  size_t bytes;
  int64_t initial = 0;
};

int64_t Value(const Descriptor& descriptor, int id, size_t bytes) {
  std::array<std::byte, 8> data{};
  size_t written = 0;
  EXPECT_EQ(descriptor.get(id, data.data(), bytes, &written), kOk) << id;
  EXPECT_EQ(written, bytes) << id;
  int64_t value = 0;
  std::memcpy(&value, data.data(), bytes);
  // Of fewer bytes, −1 is told by its bits.
  const bool ones = bytes < 8 && value == (int64_t{1} << 8 * bytes) - 1;
  return ones ? -1 : value;
}

void ExpectAttribute(const Descriptor& descriptor, const Expected& expected) {
  const auto& [id, bytes, initial] = expected;
  SCOPED_TRACE(testing::Message() << "attribute " << id);
  std::array<std::byte, 16> data{};
  size_t written = 0;
  EXPECT_EQ(descriptor.get(id, nullptr, 0, &written), kOk);
  EXPECT_EQ(written, bytes);
  EXPECT_EQ(descriptor.get(id, nullptr, 0, nullptr), kInvalid);
  EXPECT_EQ(descriptor.get(id, nullptr, bytes, &written), kInvalid);
  EXPECT_EQ(descriptor.get(id, data.data(), bytes, nullptr), kOk);
  EXPECT_EQ(Value(descriptor, id, bytes), initial);
  for (const size_t wrong : {size_t{0}, bytes - 1, bytes + 1, 2 * bytes}) {
    EXPECT_EQ(descriptor.set(id, data.data(), wrong), kInvalid) << wrong << " bytes";
    if (wrong == 0) continue;
    EXPECT_EQ(descriptor.get(id, data.data(), wrong, &written), kInvalid) << wrong << " bytes";
  }
  EXPECT_EQ(descriptor.set(id, nullptr, bytes), kInvalid);
  // Values are not looked at.
  const int64_t strange = 99;
  EXPECT_EQ(descriptor.set(id, &strange, bytes), kOk);
  EXPECT_EQ(Value(descriptor, id, bytes), strange);
}

void ExpectAttributes(const Descriptor& descriptor, const std::vector<Expected>& all) {
  for (const Expected& expected : all) ExpectAttribute(descriptor, expected);
  for (int id = 0; id < 50; ++id) {
    bool known = false;
    for (const Expected& expected : all) known |= expected.id == id;
    size_t written = 0;
    const int64_t zero = 0;
    EXPECT_EQ(descriptor.get(id, nullptr, 0, &written), known ? kOk : kInvalid) << id;
    if (known) continue;
    EXPECT_EQ(descriptor.set(id, &zero, 4), kInvalid) << id;
  }
}

TEST(DescriptorsTest, Products) {
  cublasLtMatmulDesc_t product = nullptr;
  EXPECT_EQ(cublasLtMatmulDescCreate(nullptr, CUBLAS_COMPUTE_32F, CUDA_R_32F), kInvalid);
  ASSERT_EQ(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_16F), kOk);
  std::vector<Expected> all = {{0, 4, CUBLAS_COMPUTE_32F_FAST_TF32},
                               {1, 4, CUDA_R_16F},
                               {6, 4, CUBLAS_FILL_MODE_FULL},
                               {7, 4, CUBLASLT_EPILOGUE_DEFAULT},
                               {22, 4, -1},
                               {25, 1},
                               {26, 4, -1}};
  for (const int id : {2, 3, 4, 5, 15, 16, 31, 32, 33, 34, 35, 37}) all.push_back({id, 4});
  for (const int id : {8, 10, 11, 12, 13, 14, 17, 18, 19, 20, 21, 23, 24, 36, 38}) {
    all.push_back({id, 8});
  }
  const auto attribute = [](int id) { return static_cast<cublasLtMatmulDescAttributes_t>(id); };
  ExpectAttributes({[&](int id, const void* from, size_t bytes) {
                      return cublasLtMatmulDescSetAttribute(product, attribute(id), from, bytes);
                    },
                    [&](int id, void* to, size_t bytes, size_t* written) {
                      return cublasLtMatmulDescGetAttribute(product, attribute(id), to, bytes,
                                                            written);
                    }},
                   all);
  const int32_t value = 0;
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(nullptr, CUBLASLT_MATMUL_DESC_TRANSA, &value, 4),
            kInvalid);
  EXPECT_EQ(cublasLtMatmulDescDestroy(product), kOk);
  EXPECT_EQ(cublasLtMatmulDescDestroy(nullptr), kOk);
}

TEST(DescriptorsTest, Layouts) {
  cublasLtMatrixLayout_t layout = nullptr;
  EXPECT_EQ(cublasLtMatrixLayoutCreate(nullptr, CUDA_R_32F, 2, 2, 2), kInvalid);
  // A leading dimension below the rows is taken, as any type.
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 8, 4, -7), kOk);
  const auto attribute = [](int id) { return static_cast<cublasLtMatrixLayoutAttribute_t>(id); };
  ExpectAttributes({[&](int id, const void* from, size_t bytes) {
                      return cublasLtMatrixLayoutSetAttribute(layout, attribute(id), from, bytes);
                    },
                    [&](int id, void* to, size_t bytes, size_t* written) {
                      return cublasLtMatrixLayoutGetAttribute(layout, attribute(id), to, bytes,
                                                              written);
                    }},
                   {{CUBLASLT_MATRIX_LAYOUT_TYPE, 4, CUDA_R_16BF},
                    {CUBLASLT_MATRIX_LAYOUT_ORDER, 4, CUBLASLT_ORDER_COL},
                    {CUBLASLT_MATRIX_LAYOUT_ROWS, 8, 8},
                    {CUBLASLT_MATRIX_LAYOUT_COLS, 8, 4},
                    {CUBLASLT_MATRIX_LAYOUT_LD, 8, -7},
                    {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4, 1},
                    {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8},
                    {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, 8},
                    {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 4}});
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(layout), kOk);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(nullptr), kOk);
}

TEST(DescriptorsTest, Preferences) {
  cublasLtMatmulPreference_t preference = nullptr;
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(nullptr), kInvalid);
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), kOk);
  const auto attribute = [](int id) {
    return static_cast<cublasLtMatmulPreferenceAttributes_t>(id);
  };
  ExpectAttributes(
      {[&](int id, const void* from, size_t bytes) {
         return cublasLtMatmulPreferenceSetAttribute(preference, attribute(id), from, bytes);
       },
       [&](int id, void* to, size_t bytes, size_t* written) {
         return cublasLtMatmulPreferenceGetAttribute(preference, attribute(id), to, bytes, written);
       }},
      {{CUBLASLT_MATMUL_PREF_SEARCH_MODE, 4, CUBLASLT_SEARCH_BEST_FIT},
       {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8},
       {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4, CUBLASLT_REDUCTION_SCHEME_MASK},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4, 256},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4, 256},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4, 256},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4, 256},
       {CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, 4},
       {CUBLASLT_MATMUL_PREF_IMPL_MASK, 8, -1}});
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), kOk);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(nullptr), kOk);
}

TEST(DescriptorsTest, WithoutAHandleNothingIsComputed) {
  EXPECT_EQ(cublasLtCreate(nullptr), kInvalid);
  EXPECT_EQ(cublasLtDestroy(nullptr), kInvalid);
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t x = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  ASSERT_EQ(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), kOk);
  ASSERT_EQ(cublasLtMatrixLayoutCreate(&x, CUDA_R_32F, 4, 4, 4), kOk);
  ASSERT_EQ(cublasLtMatmulPreferenceCreate(&preference), kOk);
  const float one = 1;
  EXPECT_EQ(cublasLtMatmul(nullptr, product, &one, nullptr, x, nullptr, x, &one, nullptr, x,
                           nullptr, x, nullptr, nullptr, 0, nullptr),
            CUBLAS_STATUS_NOT_INITIALIZED);
  cublasLtMatmulHeuristicResult_t result;
  int found = 0;
  EXPECT_EQ(
      cublasLtMatmulAlgoGetHeuristic(nullptr, product, x, x, x, x, preference, 1, &result, &found),
      CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), kOk);
  EXPECT_EQ(cublasLtMatrixLayoutDestroy(x), kOk);
  EXPECT_EQ(cublasLtMatmulDescDestroy(product), kOk);
  EXPECT_STREQ(cublasLtGetStatusName(CUBLAS_STATUS_NOT_SUPPORTED), "CUBLAS_STATUS_NOT_SUPPORTED");
}

}  // namespace
}  // namespace strata::standin
