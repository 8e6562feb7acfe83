// Products by the stand-in of cuBLASLt: orders, distances, batches, scalars, literally as they are
// stated; what it refuses; what it finds.
#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"

namespace strata::standin {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr cublasStatus_t kOk = CUBLAS_STATUS_SUCCESS, kInvalid = CUBLAS_STATUS_INVALID_VALUE,
                         kUnsupported = CUBLAS_STATUS_NOT_SUPPORTED;

#define EXPECT_LT_OK(call) EXPECT_EQ(call, kOk)

struct Layout {
  Layout(int64_t rows, int64_t columns, int64_t leading, cudaDataType type = CUDA_R_32F) {
    EXPECT_LT_OK(cublasLtMatrixLayoutCreate(&handle, type, rows, columns, leading));
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(handle); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  template <typename T>
  void Set(cublasLtMatrixLayoutAttribute_t attribute, T value) const {
    EXPECT_LT_OK(cublasLtMatrixLayoutSetAttribute(handle, attribute, &value, sizeof value));
  }
  void ByRows() const { Set(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_ROW}); }
  void Batch(int32_t count, int64_t stride) const {
    Set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
    Set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
  }
  cublasLtMatrixLayout_t handle = nullptr;
};

// [2, 3] x [3, 2], each f32 by columns unless a test changes it.
class ProductsTest : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    EXPECT_LT_OK(cublasLtCreate(&handle_));
    EXPECT_LT_OK(cublasLtMatmulDescCreate(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    EXPECT_LT_OK(cublasLtMatmulPreferenceCreate(&preference_));
    STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(&queue_, cudaStreamNonBlocking));
  }
  void TearDown() override {
    cublasLtMatmulPreferenceDestroy(preference_);
    cublasLtMatmulDescDestroy(product_);
    cublasLtDestroy(handle_);
  }

  template <typename T>
  void Set(cublasLtMatmulDescAttributes_t attribute, T value) {
    EXPECT_LT_OK(cublasLtMatmulDescSetAttribute(product_, attribute, &value, sizeof value));
  }
  template <typename T>
  void Prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    EXPECT_LT_OK(
        cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof value));
  }

  cublasStatus_t Choose(const Layout& a, const Layout& b, const Layout& c, const Layout& d,
                        int count = 1) {
    results_.assign(count, {});
    return cublasLtMatmulAlgoGetHeuristic(handle_, product_, a.handle, b.handle, c.handle, d.handle,
                                          preference_, count, results_.data(), &found_);
  }
  cublasStatus_t Choose() { return Choose(a_, b_, d_, d_); }

  cublasStatus_t Multiply(const float* a, const float* b, const float* c, float* d) {
    return cublasLtMatmul(handle_, product_, alpha_, a, a_.handle, b, b_.handle, beta_, c,
                          d_.handle, d, d_.handle, algorithm_, workspace_, workspace_bytes_,
                          queue_);
  }
  // What comes of the layouts as they are, from a, b and c as they lie in memory.
  std::vector<float> Product(const std::vector<float>& a, const std::vector<float>& b,
                             const std::vector<float>& c) {
    DeviceArray<float> da(a, queue_), db(b, queue_), dc(c, queue_);
    EXPECT_LT_OK(Multiply(da.data(), db.data(), dc.data(), dc.data()));
    return dc.ToHost();
  }

  // A call on good operands with one thing changed.
  cublasStatus_t Try(
      const std::function<void(const float*& a, const float*& b, float*& d)>& change) {
    DeviceArray<float> da(Numbers(6), queue_), db(Numbers(6), queue_), dd(Numbers(4), queue_);
    const float *a = da.data(), *b = db.data();
    float* d = dd.data();
    change(a, b, d);
    const cublasStatus_t status = Multiply(a, b, d, d);
    STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
    return status;
  }
  void ExpectFinding(FindingKind kind, const std::string& text) {
    EXPECT_THAT(TakeFindings(), testing::Contains(AllOf(Field(&Finding::kind, kind),
                                                        Field(&Finding::text, HasSubstr(text)))));
  }

  static std::vector<float> Numbers(int count) {
    std::vector<float> numbers(count);
    for (int i = 0; i < count; ++i) numbers[i] = static_cast<float>(i + 1);
    return numbers;
  }

  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatmulPreference_t preference_ = nullptr;
  cudaStream_t queue_ = nullptr;
  Layout a_{2, 3, 2}, b_{3, 2, 3}, d_{2, 2, 2};
  float one_ = 1, zero_ = 0;
  const float *alpha_ = &one_, *beta_ = &zero_;
  const cublasLtMatmulAlgo_t* algorithm_ = nullptr;
  void* workspace_ = nullptr;
  size_t workspace_bytes_ = 0;
  std::vector<cublasLtMatmulHeuristicResult_t> results_;
  int found_ = 0;
};

// By columns a = [1 3 5; 2 4 6], b = [1 4; 2 5; 3 6].
TEST_F(ProductsTest, MatricesLieByColumns) {
  EXPECT_THAT(Product(Numbers(6), Numbers(6), Numbers(4)), ElementsAre(22, 28, 49, 64));
}

TEST_F(ProductsTest, MatricesLieByRowsWhereTheirOrderSaysSo) {
  a_.ByRows();
  a_.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{3});
  // a = [1 2 3; 4 5 6].
  EXPECT_THAT(Product(Numbers(6), Numbers(6), Numbers(4)), ElementsAre(14, 32, 32, 77));
  b_.ByRows();
  b_.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{2});
  // b = [1 2; 3 4; 5 6].
  EXPECT_THAT(Product(Numbers(6), Numbers(6), Numbers(4)), ElementsAre(22, 49, 28, 64));
  d_.ByRows();
  EXPECT_THAT(Product(Numbers(6), Numbers(6), Numbers(4)), ElementsAre(22, 28, 49, 64));
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(ProductsTest, TransposesAreOfMatricesAsTheyLie) {
  a_.Set(CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t{3});
  a_.Set(CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t{2});
  a_.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{3});
  Set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  // op(a) = [1 2 3; 4 5 6].
  EXPECT_THAT(Product(Numbers(6), Numbers(6), Numbers(4)), ElementsAre(14, 32, 32, 77));
}

TEST_F(ProductsTest, WhatLiesBetweenColumnsIsNotTouched) {
  a_.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{4});
  d_.Set(CUBLASLT_MATRIX_LAYOUT_LD, int64_t{3});
  DeviceArray<float> a(10, queue_), b(Numbers(6), queue_), d(std::vector<float>(5, -1), queue_);
  for (int column = 0; column < 3; ++column) {  // the rest stays uninitialised
    STRATA_EXPECT_CUDA(cudaMemcpyAsync(a.data() + 4 * column, Numbers(6).data() + 2 * column, 8,
                                       cudaMemcpyHostToDevice, queue_));
  }
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  EXPECT_THAT(d.ToHost(), ElementsAre(22, 28, -1, 49, 64));
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(ProductsTest, BatchesLieAtTheirStrides) {
  a_.Batch(2, 6);
  b_.Batch(2, 0);
  d_.Batch(2, 5);
  DeviceArray<float> a(Numbers(12), queue_), b(Numbers(6), queue_), d(9, queue_);
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  STRATA_EXPECT_CUDA(cudaMemsetAsync(d.data() + 4, 0, sizeof(float), queue_));
  EXPECT_THAT(d.ToHost(), ElementsAre(22, 28, 49, 64, 0, 58, 64, 139, 154));
  EXPECT_THAT(TakeFindings(), IsEmpty());
  d_.Batch(2, 0);
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  ExpectFinding(FindingKind::kRace, "write of d over d");
}

TEST_F(ProductsTest, ScalarsComeFromTheHostAtTheCallOrFromTheDeviceAtTheProduct) {
  float alpha = 2, beta = 10;
  alpha_ = &alpha;
  beta_ = &beta;
  DeviceArray<float> a(Numbers(6), queue_), b(Numbers(6), queue_), d(Numbers(4), queue_);
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  alpha = beta = 0;  // too late
  EXPECT_THAT(d.ToHost(), ElementsAre(54, 76, 128, 168));

  Set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
  DeviceArray<float> scalars({3, 1}, queue_);
  alpha_ = scalars.data();
  beta_ = scalars.data() + 1;
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  EXPECT_THAT(d.ToHost(), ElementsAre(120, 160, 275, 360));
  EXPECT_THAT(TakeFindings(), IsEmpty());
  DeviceArray<float> nothing(2, queue_);
  alpha_ = nothing.data();
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  ExpectFinding(FindingKind::kUninitialised, "never written");
}

TEST_F(ProductsTest, ABiasIsAddedToEachColumn) {
  DeviceArray<float> bias({100, 200}, queue_);
  Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
  EXPECT_THAT(Product(Numbers(6), Numbers(6), Numbers(4)), ElementsAre(122, 228, 149, 264));
}

// As the library has been seen to: a product of 257, which bf16 rounds to 256, and 1.
TEST_F(ProductsTest, ABiasIsAddedToWhatWasRoundedWherePointersAreLessAligned) {
  constexpr uint16_t kOne = 0x3f80, k16 = 0x4180, k256 = 0x4380, k258 = 0x4381;
  const Layout row(1, 2, 1, CUDA_R_16BF), column(2, 1, 2, CUDA_R_16BF), one(1, 1, 1, CUDA_R_16BF);
  DeviceArray<uint16_t> x({k16, kOne}, queue_), bias(std::vector<uint16_t>{kOne}, queue_),
      d(1, queue_);
  Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
  for (const uint32_t alignment : {256, 2}) {
    Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
    EXPECT_LT_OK(Choose(row, column, one, one));
    EXPECT_LT_OK(cublasLtMatmul(handle_, product_, alpha_, x.data(), row.handle, x.data(),
                                column.handle, beta_, d.data(), one.handle, d.data(), one.handle,
                                &results_[0].algo, nullptr, 0, queue_));
    EXPECT_THAT(d.ToHost(), ElementsAre(alignment == 256 ? k258 : k256));
  }
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(ProductsTest, ImpossibleProblemsAreInvalid) {
  EXPECT_LT_OK(Choose());
  EXPECT_EQ(Choose({2, 4, 2}, b_, d_, d_), kInvalid);   // a's columns are not b's rows
  EXPECT_EQ(Choose(a_, b_, d_, {3, 2, 3}), kInvalid);   // d's rows are not a's
  EXPECT_EQ(Choose(a_, b_, {2, 3, 2}, d_), kInvalid);   // c is not d's size
  EXPECT_EQ(Choose({2, 3, 1}, b_, d_, d_), kInvalid);   // columns overlap
  EXPECT_EQ(Choose({2, 3, -2}, b_, d_, d_), kInvalid);  // and go backwards
  EXPECT_EQ(Choose(a_, b_, d_, d_, 0), kInvalid);
  const Layout by_rows(2, 3, 2);
  by_rows.ByRows();  // whose rows have 3 elements
  EXPECT_EQ(Choose(by_rows, b_, d_, d_), kInvalid);
  const Layout batch(2, 3, 2);
  batch.Batch(2, 6);
  EXPECT_EQ(Choose(batch, b_, d_, d_), kInvalid);
  Set(CUBLASLT_MATMUL_DESC_TRANSA, 99);
  EXPECT_EQ(Choose(), kInvalid);
}

TEST_F(ProductsTest, FactorsOfScaleAreForTypesOf8Bits) {
  DeviceArray<float> factor({2}, queue_);
  Set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, factor.data());
  EXPECT_EQ(Choose(), kInvalid);
}

TEST_F(ProductsTest, TypesAreThoseOfTheManualsTable) {
  const auto choose = [&](cudaDataType a, cudaDataType b, cudaDataType c, cudaDataType d) {
    return Choose({2, 3, 2, a}, {3, 2, 3, b}, {2, 2, 2, c}, {2, 2, 2, d});
  };
  constexpr cudaDataType kF32 = CUDA_R_32F, kF16 = CUDA_R_16F, kBf16 = CUDA_R_16BF;
  for (const cudaDataType type : {kF32, kF16, kBf16}) {
    EXPECT_LT_OK(choose(type, type, type, type));
    EXPECT_LT_OK(choose(type, type, kF32, kF32));
  }
  EXPECT_EQ(choose(kF32, kF32, kBf16, kBf16), kUnsupported);
  EXPECT_EQ(choose(kBf16, kF16, kF32, kF32), kUnsupported);
  EXPECT_EQ(choose(kF32, kBf16, kF32, kF32), kUnsupported);
  EXPECT_EQ(choose(kBf16, kBf16, kF16, kF16), kUnsupported);
  EXPECT_EQ(choose(kBf16, kBf16, kF32, kBf16), kUnsupported);
  EXPECT_EQ(choose(CUDA_R_8F_E4M3, CUDA_R_8F_E4M3, kF32, kF32), kUnsupported);
  Set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F_FAST_TF32);
  EXPECT_LT_OK(choose(kF32, kF32, kF32, kF32));
  EXPECT_EQ(choose(kBf16, kBf16, kF32, kF32), kUnsupported);
  Set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_16F);
  EXPECT_EQ(choose(kF16, kF16, kF16, kF16), kUnsupported);
  Set(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F);
  Set(CUBLASLT_MATMUL_DESC_SCALE_TYPE, kF16);
  EXPECT_EQ(choose(kF16, kF16, kF16, kF16), kUnsupported);
}

TEST_F(ProductsTest, WhatTheStandInDoesNotComputeIsRefused) {
  const auto refused = [&](cublasLtMatmulDescAttributes_t attribute, auto value, auto initial) {
    Set(attribute, value);
    EXPECT_EQ(Choose(), kUnsupported) << attribute;
    Set(attribute, initial);
    EXPECT_LT_OK(Choose());
  };
  refused(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_DEFAULT);
  refused(CUBLASLT_MATMUL_DESC_TRANSC, CUBLAS_OP_T, CUBLAS_OP_N);
  refused(CUBLASLT_MATMUL_DESC_FILL_MODE, CUBLAS_FILL_MODE_LOWER, CUBLAS_FILL_MODE_FULL);
  refused(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{8}, int64_t{0});
  refused(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE_VECTOR,
          CUBLASLT_POINTER_MODE_HOST);
  refused(CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t{1}, int8_t{0});
  const Layout tiles(2, 3, 64);
  tiles.Set(CUBLASLT_MATRIX_LAYOUT_ORDER, int32_t{CUBLASLT_ORDER_COL32});
  EXPECT_EQ(Choose(tiles, b_, d_, d_), kUnsupported);
}

TEST_F(ProductsTest, AlgorithmsAreForTheAlignmentThatIsPreferred) {
  const Layout packets(8, 8, 8, CUDA_R_16BF), odd(8, 8, 9, CUDA_R_16BF);
  EXPECT_LT_OK(Choose(packets, packets, packets, packets, 4));
  EXPECT_EQ(found_, 2);  // one by packets, one by elements
  EXPECT_LT_OK(Choose(odd, packets, packets, packets, 4));
  EXPECT_EQ(found_, 1);
  Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{2});
  EXPECT_LT_OK(Choose(packets, packets, packets, packets, 4));
  EXPECT_EQ(found_, 1);
  Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t{1});
  EXPECT_EQ(Choose(packets, packets, packets, packets, 4), kUnsupported);
  EXPECT_EQ(found_, 0);
}

TEST_F(ProductsTest, WorkspaceIsWhatTheAlgorithmNeedsAtLeast) {
  const Layout a(4, 256, 4), b(256, 4, 256), d(4, 4, 4);
  EXPECT_LT_OK(Choose(a, b, d, d));
  EXPECT_EQ(results_[0].workspaceSize, 0);  // none is allowed
  Prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{1} << 20);
  EXPECT_LT_OK(Choose(a, b, d, d));
  const size_t needed = results_[0].workspaceSize;
  ASSERT_GT(needed, 0);
  DeviceArray<float> da(Numbers(1024), queue_), db(Numbers(1024), queue_), dd(16, queue_);
  DeviceArray<char> workspace(needed, queue_);
  const auto multiply = [&](void* at, size_t bytes) {
    return cublasLtMatmul(handle_, product_, alpha_, da.data(), a.handle, db.data(), b.handle,
                          beta_, dd.data(), d.handle, dd.data(), d.handle, &results_[0].algo, at,
                          bytes, queue_);
  };
  EXPECT_LT_OK(multiply(workspace.data(), needed));
  EXPECT_EQ(multiply(workspace.data(), needed - 1), kInvalid);
  EXPECT_EQ(multiply(nullptr, needed), kInvalid);
  EXPECT_EQ(multiply(workspace.data() + 16, needed), kInvalid);
  EXPECT_THAT(workspace.ToHost(), testing::Each(char{-1}));
  EXPECT_THAT(TakeFindings(), IsEmpty());
  EXPECT_LT_OK(multiply(workspace.data(), needed + 1));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  ExpectFinding(FindingKind::kOutOfBounds, "bytes at +");
}

TEST_F(ProductsTest, CallsWithoutTheirOperandsAreInvalid) {
  const auto nothing = [](const float*&, const float*&, float*&) {};
  EXPECT_LT_OK(Try(nothing));
  EXPECT_EQ(Try([](const float*& a, const float*&, float*&) { a = nullptr; }), kInvalid);
  EXPECT_EQ(Try([](const float*&, const float*& b, float*&) { b = nullptr; }), kInvalid);
  EXPECT_EQ(Try([](const float*&, const float*&, float*& d) { d = nullptr; }), kInvalid);
  alpha_ = nullptr;
  EXPECT_EQ(Try(nothing), kInvalid);
  alpha_ = &one_;
  Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  EXPECT_EQ(Try(nothing), kInvalid);
  Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_LT_OK(cublasLtDestroy(handle_));
  EXPECT_EQ(Try(nothing), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_LT_OK(cublasLtCreate(&handle_));
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(ProductsTest, AnAlgorithmOfOtherTypesIsRefused) {
  EXPECT_LT_OK(Choose({2, 3, 2, CUDA_R_16BF}, {3, 2, 3, CUDA_R_16BF}, d_, d_));
  algorithm_ = &results_[0].algo;
  EXPECT_EQ(Try([](const float*&, const float*&, float*&) {}), kUnsupported);
  const cublasLtMatmulAlgo_t none = {};
  algorithm_ = &none;
  EXPECT_EQ(Try([](const float*&, const float*&, float*&) {}), kUnsupported);
}

TEST_F(ProductsTest, OperandsThatADeviceDoesNotReachAreFound) {
  std::vector<float> host(6);
  EXPECT_LT_OK(Try([&](const float*& a, const float*&, float*&) { a = host.data(); }));
  ExpectFinding(FindingKind::kOutOfBounds, "no memory that a device reaches");
  EXPECT_LT_OK(Try([](const float*& a, const float*&, float*&) { a += 2; }));
  ExpectFinding(FindingKind::kOutOfBounds, "bytes at +");
  EXPECT_LT_OK(Try([](const float*&, const float*&, float*& d) {
    d = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(d) + 2);
  }));
  ExpectFinding(FindingKind::kMisaligned, "c at +2");
}

TEST_F(ProductsTest, AResultOverAFactorIsFound) {
  EXPECT_LT_OK(
      Try([](const float*& a, const float*&, float*& d) { d = const_cast<float*>(a) + 1; }));
  ExpectFinding(FindingKind::kRace, "write of d over a");
}

TEST_F(ProductsTest, StreamZeroIsFound) {
  DeviceArray<float> a(Numbers(6), queue_), b(Numbers(6), queue_), d(4, queue_);
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  queue_ = nullptr;
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  ExpectFinding(FindingKind::kDefaultStream, "a matrix product on stream 0");
}

TEST_F(ProductsTest, AProductIsAnOperationThatFailsAsOthersDo) {
  const auto nothing = [](const float*&, const float*&, float*&) {};
  FailCall("cublasLtMatmul", 1, cudaErrorNotSupported);
  EXPECT_EQ(Try(nothing), kUnsupported);
  EXPECT_LT_OK(Try(nothing));
  DeviceArray<float> a(Numbers(6), queue_), b(Numbers(6), queue_), d(Numbers(4), queue_);
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  FailOperation(2, cudaErrorLaunchFailure);
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  EXPECT_LT_OK(Multiply(a.data(), b.data(), d.data(), d.data()));
  EXPECT_EQ(cudaStreamSynchronize(queue_), cudaErrorLaunchFailure);
  EXPECT_EQ(Multiply(a.data(), b.data(), d.data(), d.data()), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_EQ(cublasLtCreate(&handle_), CUBLAS_STATUS_EXECUTION_FAILED);
  EXPECT_LT_OK(Choose());  // the host's alone
  Reset();
}

}  // namespace
}  // namespace strata::standin
