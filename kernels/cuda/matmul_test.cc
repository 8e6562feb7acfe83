#include "kernels/cuda/matmul.h"

#include <cmath>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/testing.h"
#include "kernels/reference/matmul.h"

namespace strata::kernels::cuda {
namespace {

using testing::RandomOf;
using testing::WidenOf;

template <typename T>
constexpr NumberType kTypeOf = NumberType::kF32;
template <>
constexpr NumberType kTypeOf<BFloat16> = NumberType::kBF16;
template <>
constexpr NumberType kTypeOf<Float16> = NumberType::kF16;

template <typename A, typename C>
struct Types {
  using Factor = A;
  using Result = C;
};

template <typename Pair>
class MatmulTest : public standin::CudaTest {
 protected:
  using Factor = typename Pair::Factor;
  using Result = typename Pair::Result;

  static MatmulShape Typed(MatmulShape shape) {
    shape.type = kTypeOf<Factor>;
    shape.out_type = kTypeOf<Result>;
    return shape;
  }

  struct Case {
    MatmulShape shape;
    MatmulOptions options = {};
    int64_t offset = 0;  // elements from the begins of a's, b's and c's arrays to the pointers
  };

  // Products of random numbers against the reference; what lies between c's rows stays.
  void Compare(const std::vector<Case>& cases) {
    this->InEachOrder([&] {
      auto library = MatmulLibrary::Create();
      ASSERT_TRUE(library.ok()) << library.status();
      DeviceArray<char> workspace((*library)->workspace_bytes(), this->stream());
      for (const Case& c : cases) CompareOne(c, **library, workspace.data());
    });
  }

 private:
  void CompareOne(const Case& one, MatmulLibrary& library, void* workspace) {
    const auto& [shape, options, offset] = one;
    SCOPED_TRACE(::testing::Message()
                 << shape.m << " x " << shape.n << " x " << shape.k << ", transposed "
                 << shape.trans_a << shape.trans_b << ", accumulate " << shape.accumulate);
    const auto plan = library.Plan(shape, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const MatmulShape& s = (*plan)->shape();
    const auto a = RandomOf<Factor>(offset + (s.trans_a ? s.k : s.m) * s.lda, 1);
    const auto b = RandomOf<Factor>(offset + (s.trans_b ? s.n : s.k) * s.ldb, 2);
    const auto c = RandomOf<Result>(offset + s.m * s.ldc, 3);
    const auto bias = RandomOf<Result>(s.n, 4);
    const auto from = [&, &offset = offset](const auto& values) {
      const Doubles all = WidenOf(values);
      return Doubles(all.begin() + offset, all.end());
    };
    Doubles expected = reference::Matmul(shape, from(a), from(b), from(c));
    if (options.bias) {
      const Doubles addends = WidenOf(bias);
      for (int64_t i = 0; i < s.m * s.n; ++i) {
        expected[i / s.n * s.ldc + i % s.n] += addends[i % s.n];
      }
    }
    DeviceArray<Factor> da(a, this->stream()), db(b, this->stream());
    DeviceArray<Result> dc(c, this->stream()), dbias(bias, this->stream());
    STRATA_EXPECT_OK((*plan)->Run(this->stream(), da.data() + offset, db.data() + offset,
                                  dc.data() + offset, workspace,
                                  options.bias ? dbias.data() : nullptr));
    auto result = dc.ToHost();
    result.erase(result.begin(), result.begin() + offset);
    ExpectNumbers(result, expected);
  }
};

using AllTypes =
    ::testing::Types<Types<float, float>, Types<BFloat16, BFloat16>, Types<BFloat16, float>,
                     Types<Float16, Float16>, Types<Float16, float>>;
TYPED_TEST_SUITE(MatmulTest, AllTypes);

// By packets, odd sizes, one row, one column, a long k that is split.
constexpr int64_t kSizes[][3] = {{16, 24, 32},  {7, 5, 3},    {1, 33, 17}, {19, 1, 40}, {1, 1, 1},
                                 {33, 17, 130}, {8, 16, 256}, {64, 48, 8}, {2, 3, 301}};

TYPED_TEST(MatmulTest, AllTransposesAndSizesEqualTheReference) {
  std::vector<typename TestFixture::Case> cases;
  for (const auto& [m, n, k] : kSizes) {
    for (const bool trans_a : {false, true}) {
      for (const bool trans_b : {false, true}) {
        cases.push_back(
            {this->Typed({.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b})});
      }
    }
  }
  this->Compare(cases);
}

TYPED_TEST(MatmulTest, AccumulatesIntoRowsApart) {
  std::vector<typename TestFixture::Case> cases;
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const int64_t gap : {8, 3}) {
        cases.push_back({this->Typed({.m = 10,
                                      .n = 12,
                                      .k = 70,
                                      .trans_a = trans_a,
                                      .trans_b = trans_b,
                                      .lda = (trans_a ? 10 : 70) + gap,
                                      .ldb = (trans_b ? 70 : 12) + gap,
                                      .ldc = 12 + gap,
                                      .accumulate = true})});
      }
    }
  }
  this->Compare(cases);
}

TYPED_TEST(MatmulTest, AddsABiasToEachRow) {
  this->Compare(
      {{this->Typed({.m = 5, .n = 24, .k = 16}), {.bias = true}},
       {this->Typed({.m = 5, .n = 7, .k = 9, .ldc = 11, .accumulate = true}), {.bias = true}}});
}

TYPED_TEST(MatmulTest, TakesPointersThatAreAlignedToElementsAlone) {
  constexpr int kElement = sizeof(typename TestFixture::Factor);
  const MatmulShape shape = this->Typed({.m = 8, .n = 16, .k = 64});
  this->Compare({{shape, {.alignment = kElement}, 1},
                 {shape, {.alignment = 2 * kElement}, 2},
                 {shape, {.bias = true, .alignment = 16}, 16 / kElement}});
}

class MatmulLibraryTest : public standin::CudaTest {
 protected:
  static std::unique_ptr<MatmulLibrary> Library() {
    auto library = MatmulLibrary::Create();
    EXPECT_TRUE(library.ok()) << library.status();
    return *std::move(library);
  }
};

TEST_F(MatmulLibraryTest, APlanIsMadeOncePerShapeAndOptions) {
  InEachOrder([&] {
    const auto library = Library();
    const MatmulShape shape{.m = 16, .n = 16, .k = 16};
    MatmulShape spelt_out = shape, other = shape;
    spelt_out.lda = spelt_out.ldb = spelt_out.ldc = 16;
    other.trans_b = true;
    const MatmulPlan* const plan = *library->Plan(shape);
    EXPECT_EQ(*library->Plan(spelt_out), plan);
    EXPECT_EQ(plan->shape().ldb, 16);
    EXPECT_NE(*library->Plan(other), plan);
    EXPECT_NE(*library->Plan(shape, {.tf32 = true}), plan);
    EXPECT_NE(*library->Plan(shape, {.bias = true}), plan);
    EXPECT_NE(*library->Plan(shape, {.alignment = 16}), plan);
    EXPECT_EQ(*library->Plan(shape), plan);
  });
}

TEST_F(MatmulLibraryTest, ImpossibleShapesAndOptionsAreRefused) {
  InEachOrder([&] {
    const auto library = Library();
    const auto refused = [&](const MatmulShape& shape, const MatmulOptions& options = {}) {
      return library->Plan(shape, options).status().code() == absl::StatusCode::kInvalidArgument;
    };
    EXPECT_TRUE(refused({.m = 0, .n = 4, .k = 4}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4, .lda = 3}));
    EXPECT_TRUE(refused({.m = 4, .n = 5, .k = 4, .ldc = 4}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4, .out_type = NumberType::kBF16}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4}, {.alignment = 2}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4}, {.alignment = 24}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4}, {.alignment = 512}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4}, {.bias = true, .alignment = 8}));
    EXPECT_TRUE(refused({.m = 4, .n = 4, .k = 4, .type = NumberType::kBF16}, {.tf32 = true}));
  });
}

TEST_F(MatmulLibraryTest, CallsThatThePlanWasNotMadeForAreRefused) {
  InEachOrder([&] {
    const auto library = Library();
    DeviceArray<float> x(Floats(512, 1.0F), stream());
    DeviceArray<char> workspace(library->workspace_bytes(), stream());
    const MatmulPlan* const plan = *library->Plan({.m = 4, .n = 4, .k = 4});
    const MatmulPlan* const biased = *library->Plan({.m = 4, .n = 4, .k = 4}, {.bias = true});
    float *const a = x.data(), *const b = a + 64, *const c = b + 64;
    const auto code = [&](const MatmulPlan* p, const float* a_at, const float* bias) {
      return p->Run(stream(), a_at, b, c, workspace.data(), bias).code();
    };
    EXPECT_EQ(code(plan, a, nullptr), absl::StatusCode::kOk);
    EXPECT_EQ(code(plan, a + 1, nullptr), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(code(plan, a, c + 64), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(code(biased, a, nullptr), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(code(biased, a, c + 65), absl::StatusCode::kInvalidArgument);
  });
}

TEST_F(MatmulLibraryTest, PointersHaveTheAlignmentOfTheLeastAligned) {
  const auto at = [](uintptr_t address) { return reinterpret_cast<const void*>(address); };
  EXPECT_EQ(PointerAlignment({at(512), at(1024), nullptr}), 256);
  EXPECT_EQ(PointerAlignment({at(512), at(1024 + 16)}), 16);
  EXPECT_EQ(PointerAlignment({at(514), at(1024)}), 2);
}

TEST_F(MatmulLibraryTest, Tf32RoundsFactorsAndIsOnlyThereWhenAskedFor) {
  constexpr int64_t kSize = 16;
  const float value = 1 + 0x1p-12F;  // of which TF32 keeps 1
  InEachOrder([&] {
    const auto library = Library();
    DeviceArray<float> a(Floats(kSize * kSize, value), stream()),
        b(Floats(kSize * kSize, 1), stream()), c(kSize * kSize, stream());
    DeviceArray<char> workspace(library->workspace_bytes(), stream());
    for (const bool tf32 : {false, true}) {
      const MatmulPlan* const plan =
          *library->Plan({.m = kSize, .n = kSize, .k = kSize}, {.tf32 = tf32});
      STRATA_EXPECT_OK(plan->Run(stream(), a.data(), b.data(), c.data(), workspace.data()));
      EXPECT_THAT(c.ToHost(), ::testing::Each(kSize * (tf32 ? 1.0F : value)));
    }
  });
}

TEST_F(MatmulLibraryTest, RunsAgainFromAGraph) {
  const auto a = testing::Random(8 * 64, 1), b = testing::Random(64 * 16, 2);
  const MatmulShape shape{.m = 8, .n = 16, .k = 64, .accumulate = true};
  Doubles expected(8 * 16, 0);
  for (int i = 0; i < 3; ++i) {
    expected = reference::Matmul(shape, WidenOf(a), WidenOf(b), expected);
  }
  InEachOrder([&] {
    const auto library = Library();
    DeviceArray<float> da(a, stream()), db(b, stream()), dc(Floats(8 * 16, 0), stream());
    DeviceArray<char> workspace(library->workspace_bytes(), stream());
    const MatmulPlan* const plan = *library->Plan(shape);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t execution = nullptr;
    STRATA_EXPECT_CUDA(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
    STRATA_EXPECT_OK(plan->Run(stream(), da.data(), db.data(), dc.data(), workspace.data()));
    STRATA_EXPECT_CUDA(cudaStreamEndCapture(stream(), &graph));
    STRATA_EXPECT_CUDA(cudaGraphInstantiate(&execution, graph, 0));
    for (int i = 0; i < 3; ++i) STRATA_EXPECT_CUDA(cudaGraphLaunch(execution, stream()));
    ExpectNumbers(dc.ToHost(), expected);
    STRATA_EXPECT_CUDA(cudaGraphExecDestroy(execution));
    STRATA_EXPECT_CUDA(cudaGraphDestroy(graph));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
