// Products and the biases behind them, as one launch where they may be.
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "gmock/gmock.h"
#include "kernels/cuda/matmul.h"
#include "ops/backend.h"
#include "ops/bias.h"
#include "ops/matmul.h"
#include "program/passes/layout.h"
#include "worker/engine/cuda/cuda_accelerator.h"
#include "worker/engine/workshop.h"

namespace strata::worker {
namespace {

using program::Access;
using program::Operand;
using program::Purpose;
using program::Stream;
using program::Tier;
using testing::ElementsAreArray;

constexpr int64_t kM = 2, kN = 4, kK = 4, kF32 = 4;
constexpr int kSteps = 2;

// Small integers, so that sums are exact: of a slot, of the bias in a step.
using Values = std::array<float, 16>;
Values From(float first, float distance) {
  Values values;
  for (int i = 0; i < 16; ++i) values[i] = first + distance * static_cast<float>(i);
  return values;
}
const Values kA = From(1, 1), kB = From(-5, 1);
Values BiasOf(int step) { return From(100 - 800.0F * static_cast<float>(step), 100); }

// The first elements of slots: a and c in rows, b and the bias.
struct Line {
  Line() {
    a = shop.Slot("a");
    b = shop.Slot("b");
    c = shop.Slot("c");
    other = shop.Slot("other");
    bias = shop.Slot("bias", /*versioned=*/true);
    next = shop.Slot("next");
    number = shop.HostSlot("number");
    fetched = shop.Slot("fetched");
    workspace_bytes = kernels::cuda::MatmulWorkspaceBytes(9) + ops::Backend().cuda_alignment_bytes;
    workspace =
        shop.assembler.AddPersistent("workspace", program::SlotClass::kBatch, workspace_bytes);
    shop.assembler.BeginProgram("train");
    shop.Copy(bias, next, Stream::kCompute, /*dst_version=*/1);
  }

  void Product(bool accumulate = false) {
    shop.assembler.CallOp(
        ops::ToOp(ops::MatMul{.m = kM, .n = kN, .k = kK, .accumulate = accumulate}),
        Purpose::kForward, "product",
        {Workshop::At(a, Access::kRead),
         Workshop::At(b, Access::kRead),
         Workshop::At(c, accumulate ? Access::kAccumulate : Access::kWrite),
         {.slot = workspace, .bytes = workspace_bytes, .access = Access::kWrite}});
  }
  void Bias(int to, int from, int64_t rows = kM, int64_t first = 0) {
    shop.assembler.CallOp(
        ops::ToOp(ops::AddBias{.rows = rows, .width = kN}), Purpose::kForward, "bias",
        {Workshop::At(to, Access::kAccumulate),
         {.slot = from, .offset = first * kF32, .bytes = kN * kF32, .access = Access::kRead}});
  }

  Workshop shop{1, Tier::kDevice};
  int a, b, c, other, bias, next, number, fetched, workspace;
  int64_t workspace_bytes;
};

// c or the other matrix, in a step's end; both are zeros in the beginning.
struct Matrices {
  Values c{}, other{};
};
void AddProduct(Values& to) {
  for (int64_t i = 0; i < kM * kN; ++i) {
    for (int64_t k = 0; k < kK; ++k) to[i] += kA[i / kN * kK + k] * kB[k * kN + i % kN];
  }
}
void AddBias(Values& to, const Values& bias, int64_t rows = kM, int64_t first = 0) {
  for (int64_t i = 0; i < rows * kN; ++i) to[i] += bias[first + i % kN];
}

class JoinedTest : public standin::CudaTest {
 protected:
  using Expected = std::function<void(Matrices& matrices, int step)>;

  // A program is what `expected` computes, by so many kernels besides the library's in a step.
  void Expect(const std::function<void(Line&)>& add, int kernels, const Expected& expected) {
    InEachOrder([&] {
      Line line;
      add(line);
      const auto accelerator = *CudaAccelerator::Create(0);
      line.shop.accelerator = accelerator.get();
      const auto rank = line.shop.Open();
      ASSERT_TRUE(rank.ok()) << rank.status();
      Engine& engine = *rank->engine;
      Write(engine, line.a, kA);
      Write(engine, line.b, kB);
      Write(engine, line.c, {});
      Write(engine, line.other, {});
      Write(engine, line.bias, BiasOf(0));
      for (float& of : absl::MakeSpan(Floats(*rank, line.number), 16)) of = 1;
      Matrices matrices;
      const int64_t before = standin::CallsOf("cudaLaunchKernel");
      for (int step = 0; step < kSteps; ++step) {
        Write(engine, line.next, BiasOf(step + 1));
        ASSERT_TRUE(engine.RunStep(0, step).ok());
        ASSERT_TRUE(engine.Drain().ok());
        expected(matrices, step);
        EXPECT_THAT(Read(engine, line.c), ElementsAreArray(matrices.c));
        EXPECT_THAT(Read(engine, line.other), ElementsAreArray(matrices.other));
      }
      EXPECT_EQ(standin::CallsOf("cudaLaunchKernel") - before, kernels * kSteps);
    });
  }

 private:
  static void Write(Engine& engine, int slot, const Values& values) {
    const auto* const data = reinterpret_cast<const std::byte*>(values.data());
    const absl::Status status =
        engine.slots().Write(slot, 0, 0, 0, absl::MakeSpan(data, sizeof values));
    EXPECT_TRUE(status.ok()) << status;
  }
  static Values Read(Engine& engine, int slot) {
    Values values;
    auto* const data = reinterpret_cast<std::byte*>(values.data());
    const absl::Status status =
        engine.slots().Read(slot, 0, 0, 0, absl::MakeSpan(data, sizeof values));
    EXPECT_TRUE(status.ok()) << status;
    return values;
  }
};

// Of the place that the step's version of the bias has: the next step's is there before.
TEST_F(JoinedTest, AProductAndItsBiasAreOneLaunch) {
  Expect(
      [](Line& line) {
        line.Product();
        line.Bias(line.c, line.bias);
      },
      0,
      [](Matrices& matrices, int step) {
        matrices.c = {};
        AddProduct(matrices.c);
        AddBias(matrices.c, BiasOf(step));
      });
}

TEST_F(JoinedTest, WhatIsAddedToAMatrixIsToo) {
  Expect(
      [](Line& line) {
        line.Product(/*accumulate=*/true);
        line.Bias(line.c, line.bias, kM, 4);
      },
      0,
      [](Matrices& matrices, int step) {
        AddProduct(matrices.c);
        AddBias(matrices.c, BiasOf(step), kM, 4);
      });
}

TEST_F(JoinedTest, ABiasOfAnotherMatrixIsAddedByItself) {
  Expect(
      [](Line& line) {
        line.Product();
        line.Bias(line.other, line.bias);
      },
      1,
      [](Matrices& matrices, int step) {
        matrices.c = {};
        AddProduct(matrices.c);
        AddBias(matrices.other, BiasOf(step));
      });
}

TEST_F(JoinedTest, ABiasOfSomeRowsIsAddedByItself) {
  Expect(
      [](Line& line) {
        line.Product();
        line.Bias(line.c, line.bias, 1);
      },
      1,
      [](Matrices& matrices, int step) {
        matrices.c = {};
        AddProduct(matrices.c);
        AddBias(matrices.c, BiasOf(step), 1);
      });
}

// The library reads 16 bytes at once.
TEST_F(JoinedTest, ABiasThatIsNotAlignedIsAddedByItself) {
  Expect(
      [](Line& line) {
        line.Product();
        line.Bias(line.c, line.bias, kM, 1);
      },
      1,
      [](Matrices& matrices, int step) {
        matrices.c = {};
        AddProduct(matrices.c);
        AddBias(matrices.c, BiasOf(step), kM, 1);
      });
}

// The product would wait for it as well.
TEST_F(JoinedTest, ABiasThatWaitsForAnotherStreamIsAddedByItself) {
  Expect(
      [](Line& line) {
        line.shop.Double(line.number, Stream::kHost);
        line.shop.Transfer(line.number, line.fetched, Stream::kFetch);
        line.Product();
        line.Bias(line.c, line.fetched);
      },
      1,
      [](Matrices& matrices, int step) {
        matrices.c = {};
        AddProduct(matrices.c);
        AddBias(matrices.c, From(step == 0 ? 2 : 4, 0));
      });
}

TEST_F(JoinedTest, WhatLiesBetweenStaysThere) {
  Expect(
      [](Line& line) {
        line.Product();
        line.shop.Double(line.c);
        line.Bias(line.c, line.bias);
      },
      2,
      [](Matrices& matrices, int step) {
        matrices.c = {};
        AddProduct(matrices.c);
        AddProduct(matrices.c);
        AddBias(matrices.c, BiasOf(step));
      });
}

}  // namespace
}  // namespace strata::worker
