#include "kernels/matmul.h"

#include <omp.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/cpu/test_util.h"
#include "kernels/isa.h"
#include "kernels/reference/matmul.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

// extra: how much longer the stored rows are than the matrix. What lies between must stay.
void Check(MatmulShape shape, MatmulBackend backend, int64_t extra) {
  const int64_t lda = (shape.trans_a ? shape.m : shape.k) + extra;
  const int64_t ldb = (shape.trans_b ? shape.k : shape.n) + extra;
  const int64_t ldc = shape.n + extra;
  if (extra > 0) shape.lda = lda, shape.ldb = ldb, shape.ldc = ldc;
  const Floats a = testing::Random((shape.trans_a ? shape.k : shape.m) * lda, 1);
  const Floats b = testing::Random((shape.trans_b ? shape.n : shape.k) * ldb, 2);
  const Floats c = testing::Random(shape.m * ldc, 3);
  const Floats result = testing::RunWithThreads([&](const Context& context) {
    const int threads = context.pool->threads();
    const auto plan = MatmulPlan::Create(shape, threads, backend);
    EXPECT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->backend(), backend);
    Floats out = c;
    testing::Workspace workspace(MatmulWorkspaceBytes(shape, threads));
    plan->Run(context, a.data(), b.data(), out.data(), workspace.get());
    Floats again = c;
    plan->Run(context, a.data(), b.data(), again.data(), workspace.get());
    EXPECT_TRUE(testing::SameBits(out, again));
    return out;
  });
  const Doubles expected =
      reference::Matmul(shape, testing::Widen(a), testing::Widen(b), testing::Widen(c));
  testing::ExpectClose(result, expected, 2e-6);
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = shape.n; j < ldc; ++j) EXPECT_EQ(result[i * ldc + j], c[i * ldc + j]);
  }
}

class MatmulTest : public ::testing::TestWithParam<std::tuple<MatmulBackend, bool, bool, bool>> {
 protected:
  void CheckShape(int64_t m, int64_t n, int64_t k, int64_t extra) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k << " + " << extra);
    const auto [backend, trans_a, trans_b, accumulate] = GetParam();
    Check(
        {.m = m, .n = n, .k = k, .trans_a = trans_a, .trans_b = trans_b, .accumulate = accumulate},
        backend, extra);
  }
};

TEST_P(MatmulTest, MatchesTheReferenceOnSmallAndRaggedShapes) {
  // Making oneDNN's primitives takes most of the time, and their inside is not ours to cover.
  const bool own = std::get<0>(GetParam()) == MatmulBackend::kOwn;
  using Sizes = std::vector<int64_t>;
  for (const int64_t m : own ? Sizes{1, 3, 4, 5, 6, 7, 13} : Sizes{1, 7}) {
    for (const int64_t n : own ? Sizes{1, 8, 15, 16, 17, 33} : Sizes{1, 17}) {
      for (const int64_t k : own ? Sizes{1, 7, 9, 40} : Sizes{1, 40}) {
        CheckShape(m, n, k, (m + n + k) % 3);
      }
    }
  }
}

TEST_P(MatmulTest, MatchesTheReferenceAcrossBlocks) {
  CheckShape(2, 1001, 333, 3);   // few rows, several tasks
  CheckShape(101, 131, 300, 0);  // two blocks of K
  CheckShape(200, 530, 520, 5);  // several tasks in both directions
}

INSTANTIATE_TEST_SUITE_P(
    All, MatmulTest,
    ::testing::Combine(::testing::Values(MatmulBackend::kOwn, MatmulBackend::kOneDnn),
                       ::testing::Bool(), ::testing::Bool(), ::testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<0>(info.param) == MatmulBackend::kOwn ? "Own" : "OneDnn") +
             (std::get<1>(info.param) ? "TransA" : "") + (std::get<2>(info.param) ? "TransB" : "") +
             (std::get<3>(info.param) ? "Accumulate" : "");
    });

TEST(Matmul, BlocksOfRowsAndColumnsBeyondOnePackedBlock) {
  Check({.m = 2200, .n = 40, .k = 24}, MatmulBackend::kOwn, 0);
  Check({.m = 20, .n = 4200, .k = 24, .trans_b = true}, MatmulBackend::kOwn, 0);
}

TEST(Matmul, ImpossibleShapesAreRefused) {
  EXPECT_EQ(MatmulPlan::Create({.m = 0, .n = 1, .k = 1}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MatmulPlan::Create({.m = 2, .n = 8, .k = 4, .ldc = 7}, 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      MatmulPlan::Create({.m = 2, .n = 8, .k = 4, .trans_a = true, .lda = 1}, 1).status().code(),
      absl::StatusCode::kInvalidArgument);
}

// Where the library is slow.
TEST(Matmul, DeepAndTransposedProductsOfF32_AreOurOwn) {
  for (const MatmulShape& shape : {MatmulShape{.m = 16, .n = 16, .k = 8192},
                                   MatmulShape{.m = 16, .n = 16, .k = 64, .trans_a = true}}) {
    const auto plan = MatmulPlan::Create(shape, 1);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->backend(), MatmulBackend::kOwn);
  }
}

TEST(Matmul, AProductOfAnotherTypeOfSixteenBitsIsRefused) {
  const MatmulShape shape = {
      .m = 2, .n = 2, .k = 2, .type = NumberType::kBF16, .out_type = NumberType::kF16};
  EXPECT_EQ(MatmulPlan::Create(shape, 1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(Matmul, MakingAPlanLeavesTheCallersOpenMpThreadsAlone) {
  omp_set_num_threads(2);
  ASSERT_TRUE(MatmulPlan::Create({.m = 8, .n = 8, .k = 8}, 1, MatmulBackend::kOneDnn).ok());
  EXPECT_EQ(omp_get_max_threads(), 2);
  omp_set_num_threads(1);
}

// Products of factors of 16 bits are those of the factors in f32, here in the same order; a product
// of 16 bits is rounded once.
template <typename T>
void CheckSixteenBits(NumberType type, MatmulShape shape) {
  SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k);
  const auto rounded = [](const Floats& values) {
    std::vector<T> result(values.size());
    for (size_t i = 0; i < values.size(); ++i) result[i] = FromFloat<T>(values[i]);
    return result;
  };
  const auto widened = [](const std::vector<T>& values) {
    Floats result(values.size());
    for (size_t i = 0; i < values.size(); ++i) result[i] = ToFloat(values[i]);
    return result;
  };
  const auto a = rounded(testing::Random(shape.m * shape.k, 1));
  const auto b = rounded(testing::Random(shape.k * shape.n, 2));
  const auto c = rounded(testing::Random(shape.m * shape.n, 3));
  const auto run = [&](NumberType in, NumberType out, const void* x, const void* y, void* z) {
    MatmulShape typed = shape;
    typed.type = in;
    typed.out_type = out;
    device::ThreadPool pool(2);
    const auto plan = MatmulPlan::Create(typed, 2, MatmulBackend::kOwn);
    ASSERT_TRUE(plan.ok()) << plan.status();
    testing::Workspace workspace(MatmulWorkspaceBytes(typed, 2));
    plan->Run({&pool}, x, y, z, workspace.get());
  };
  const Floats wide_a = widened(a), wide_b = widened(b);
  Floats expected = widened(c), wide = expected;
  std::vector<T> narrow = c;
  run(NumberType::kF32, NumberType::kF32, wide_a.data(), wide_b.data(), expected.data());
  run(type, NumberType::kF32, a.data(), b.data(), wide.data());
  run(type, type, a.data(), b.data(), narrow.data());
  EXPECT_TRUE(testing::SameBits(wide, expected));
  const float unit = type == NumberType::kBF16 ? 0x1p-8F : 0x1p-11F;
  for (size_t i = 0; i < narrow.size(); ++i) {
    // c comes to the sums last, or to those of the first block of k.
    ASSERT_NEAR(ToFloat(narrow[i]), expected[i], std::abs(expected[i]) * unit + 1e-4F) << i;
  }
}

TEST(Matmul, OfSixteenBits_IsThatOfTheSameNumbersInF32) {
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const auto check = [&](int64_t m, int64_t n, int64_t k) {
          const MatmulShape shape = {.m = m,
                                     .n = n,
                                     .k = k,
                                     .trans_a = trans_a,
                                     .trans_b = trans_b,
                                     .accumulate = accumulate};
          CheckSixteenBits<BFloat16>(NumberType::kBF16, shape);
          CheckSixteenBits<Float16>(NumberType::kF16, shape);
        };
        check(3, 17, 40);    // few rows
        check(13, 33, 9);    // one block of k
        check(50, 70, 520);  // three
      }
    }
  }
  CheckSixteenBits<BFloat16>(NumberType::kBF16, {.m = 1100, .n = 40, .k = 300});
  CheckSixteenBits<BFloat16>(NumberType::kBF16, {.m = 20, .n = 1100, .k = 300, .trans_b = true});
}

// Both sum in f32, in orders of their own; c, between whose rows others' numbers lie, is rounded
// once.
template <typename Out>
void CheckTiles(MatmulShape shape) {
  SCOPED_TRACE(::testing::Message() << shape.m << " x " << shape.n << " x " << shape.k << " "
                                    << shape.trans_a << shape.trans_b << shape.accumulate);
  constexpr int64_t kExtra = 3;
  shape.type = NumberType::kBF16;
  shape.out_type = sizeof(Out) == 2 ? NumberType::kBF16 : NumberType::kF32;
  shape.lda = (shape.trans_a ? shape.m : shape.k) + kExtra;
  shape.ldb = (shape.trans_b ? shape.k : shape.n) + kExtra;
  shape.ldc = shape.n + kExtra;
  const auto random = [](int64_t rows, int64_t ld, int seed, auto number) {
    std::vector<decltype(number)> values;
    for (const float value : testing::Random(rows * ld, seed)) {
      values.push_back(FromFloat<decltype(number)>(value));
    }
    return values;
  };
  const auto a = random(shape.trans_a ? shape.k : shape.m, shape.lda, 1, BFloat16{});
  const auto b = random(shape.trans_b ? shape.n : shape.k, shape.ldb, 2, BFloat16{});
  const std::vector<Out> c = random(shape.m, shape.ldc, 3, Out{});
  const auto run = [&](const Context& context, MatmulBackend backend) {
    const auto plan = MatmulPlan::Create(shape, context.pool->threads(), backend);
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::vector<Out> out = c;
    testing::Workspace workspace(MatmulWorkspaceBytes(shape, context.pool->threads()));
    plan->Run(context, a.data(), b.data(), out.data(), workspace.get());
    return testing::Back(out);
  };
  const Floats tiles = testing::RunWithThreads(
      [&](const Context& context) { return run(context, MatmulBackend::kTiles); });
  device::ThreadPool pool(1);
  const Floats expected = run({&pool}, MatmulBackend::kOwn);
  const float unit = sizeof(Out) == 2 ? 0x1p-7F : 1e-5F;  // their sums may be rounded apart
  const float small = 3e-6F * std::sqrt(static_cast<float>(shape.k)) + 1e-6F;
  for (int64_t i = 0; i < shape.m; ++i) {
    for (int64_t j = 0; j < shape.ldc; ++j) {
      const int64_t at = i * shape.ldc + j;
      if (j >= shape.n) {
        ASSERT_EQ(tiles[at], ToFloat(c[at]));
      } else {
        ASSERT_NEAR(tiles[at], expected[at], std::abs(expected[at]) * unit + small)
            << i << ", " << j;
      }
    }
  }
}

bool TilesWork() {
  return MatmulPlan::Create(
             {.m = 16, .n = 16, .k = 1, .type = NumberType::kBF16, .out_type = NumberType::kF32}, 1,
             MatmulBackend::kTiles)
      .ok();
}

TEST(Matmul, OfBFloat16ByTiles_IsCloseToOurOwn) {
  if (!TilesWork()) GTEST_SKIP() << "the CPU has no AMX that works";
  for (const bool trans_a : {false, true}) {
    for (const bool trans_b : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const auto check = [&](int64_t m, int64_t n, int64_t k) {
          const MatmulShape shape = {.m = m,
                                     .n = n,
                                     .k = k,
                                     .trans_a = trans_a,
                                     .trans_b = trans_b,
                                     .accumulate = accumulate};
          CheckTiles<float>(shape);
          CheckTiles<BFloat16>(shape);
        };
        check(16, 17, 1);
        check(33, 47, 31);
        check(64, 32, 256);
        check(290, 70, 545);   // two tasks of rows, three parts of k
        check(40, 300, 2100);  // two blocks of k where c is f32
      }
    }
  }
  CheckTiles<float>({.m = 40, .n = 2000, .k = 2048, .trans_b = true});  // two blocks of columns
  // Sums apart, over three blocks of k; rows and columns of several blocks.
  CheckTiles<BFloat16>({.m = 70, .n = 40, .k = 4200, .trans_b = true});
  CheckTiles<BFloat16>({.m = 4130, .n = 140, .k = 4097, .accumulate = true});
}

TEST(Matmul, ByTilesAndThroughTheLibraryInTurns_KeepTheirTiles) {
  if (!TilesWork()) GTEST_SKIP() << "the CPU has no AMX that works";
  const MatmulShape shape = {.m = 70,
                             .n = 90,
                             .k = 300,
                             .trans_b = true,
                             .type = NumberType::kBF16,
                             .out_type = NumberType::kF32};
  const std::vector<BFloat16> a(shape.m * shape.k, FromFloat<BFloat16>(0.5F));
  const std::vector<BFloat16> b(shape.k * shape.n, FromFloat<BFloat16>(0.25F));
  device::ThreadPool pool(2);
  testing::Workspace workspace(MatmulWorkspaceBytes(shape, 2));
  const auto tiles = MatmulPlan::Create(shape, 2, MatmulBackend::kTiles);
  const auto library = MatmulPlan::Create(shape, 2, MatmulBackend::kOneDnn);
  ASSERT_TRUE(tiles.ok() && library.ok());
  for (int i = 0; i < 6; ++i) {
    Floats c(shape.m * shape.n);
    (i % 2 == 0 ? library : tiles)->Run({&pool}, a.data(), b.data(), c.data(), workspace.get());
    for (const float value : c) ASSERT_EQ(value, 37.5F);
  }
}

TEST(Matmul, OfBFloat16ThroughTheLibrary_IsCloseToOurOwn) {
  if (!BFloat16Works()) GTEST_SKIP() << "the CPU does not multiply bf16 numbers";
  const MatmulShape shape = {.m = 70,
                             .n = 90,
                             .k = 300,
                             .trans_b = true,
                             .type = NumberType::kBF16,
                             .out_type = NumberType::kF32};
  std::vector<BFloat16> a(shape.m * shape.k), b(shape.k * shape.n);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = FromFloat<BFloat16>(0.01F * static_cast<float>(i % 97));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = FromFloat<BFloat16>(0.01F * static_cast<float>(i % 89));
  Floats own(shape.m * shape.n), library = own;
  device::ThreadPool pool(2);
  testing::Workspace workspace(MatmulWorkspaceBytes(shape, 2));
  for (const auto& [backend, c] :
       {std::pair{MatmulBackend::kOwn, &own}, std::pair{MatmulBackend::kOneDnn, &library}}) {
    const auto plan = MatmulPlan::Create(shape, 2, backend);
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan->Run({&pool}, a.data(), b.data(), c->data(), workspace.get());
  }
  testing::ExpectClose(library, testing::Widen(own), 1e-5);
}

TEST(Matmul, NonFiniteValuesComeThrough) {
  Floats a = testing::Random(7 * 9, 1), b = testing::Random(9 * 5, 2), c(7 * 5);
  a[3 * 9 + 4] = std::nanf("");
  device::ThreadPool pool(1);
  const MatmulShape shape = {.m = 7, .n = 5, .k = 9};
  const auto plan = MatmulPlan::Create(shape, 1, MatmulBackend::kOwn);
  testing::Workspace workspace(MatmulWorkspaceBytes(shape, 1));
  plan->Run({&pool}, a.data(), b.data(), c.data(), workspace.get());
  for (int64_t i = 0; i < 7; ++i) {
    for (int64_t j = 0; j < 5; ++j) EXPECT_EQ(std::isnan(c[i * 5 + j]), i == 3);
  }
}

}  // namespace
}  // namespace strata::kernels
