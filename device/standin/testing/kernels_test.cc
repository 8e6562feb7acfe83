// Correct kernels against references in f64: right values and nothing found, in each order.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "common/rng.h"
#include "device/standin/testing/cuda_test.h"
#include "device/standin/testing/example_kernels.h"

namespace strata::standin {
namespace {

using bf16 = __nv_bfloat16;

class KernelsTest : public CudaTest {};

std::vector<float> Normal(uint64_t key, size_t count, float scale = 1) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * common::NormalAt(key, i);
  return values;
}

std::vector<bf16> ToBf16(const std::vector<float>& values) {
  std::vector<bf16> out;
  for (const float value : values) out.push_back(__float2bfloat16(value));
  return out;
}

// |a − b| / (1 + |b|); infinite for what is not finite.
double Error(double a, double b) {
  return std::isfinite(a) ? std::fabs(a - b) / (1 + std::fabs(b)) : INFINITY;
}
double Error(bf16 a, double b) { return Error(__bfloat162float(a), b); }

constexpr double kBf16Error = 4e-3, kF32Error = 4e-6;

void CheckNorm(int rows, int channels, cudaStream_t stream) {
  const auto x = ToBf16(Normal(1, static_cast<size_t>(rows) * channels));
  const auto branch = ToBf16(Normal(2, x.size()));
  const auto weight = Normal(3, channels);
  DeviceArray<bf16> dx(x, stream), dbranch(branch, stream), dsum(x.size(), stream),
      dy(x.size(), stream);
  DeviceArray<float> dweight(weight, stream), drstd(rows, stream);
  AddRmsNorm(stream, rows, channels, 1e-5f, dx.data(), dbranch.data(), dweight.data(), dsum.data(),
             dy.data(), drstd.data());
  const auto sum = dsum.ToHost(), y = dy.ToHost();
  const auto rstd = drstd.ToHost();
  double worst = 0, worst_rstd = 0;
  for (int row = 0; row < rows; ++row) {
    const size_t base = static_cast<size_t>(row) * channels;
    double squares = 0;
    std::vector<double> sums(channels);
    for (int c = 0; c < channels; ++c) {
      sums[c] = __bfloat162float(
          __float2bfloat16(__bfloat162float(x[base + c]) + __bfloat162float(branch[base + c])));
      squares += sums[c] * sums[c];
      worst = std::max(worst, Error(sum[base + c], sums[c]));
    }
    const double expected = 1 / std::sqrt(squares / channels + 1e-5);
    worst_rstd = std::max(worst_rstd, Error(rstd[row], expected));
    for (int c = 0; c < channels; ++c) {
      worst = std::max(worst, Error(y[base + c], sums[c] * expected * weight[c]));
    }
  }
  EXPECT_LT(worst, kBf16Error);
  EXPECT_LT(worst_rstd, kF32Error);
}

TEST_F(KernelsTest, AddRmsNormEqualsTheReference) {
  InEachOrder([&] {
    CheckNorm(3, 1024, stream());
    CheckNorm(3, 776, stream());  // threads without channels
  });
}

void CheckLoss(int rows, int vocabulary, cudaStream_t stream) {
  const auto logits = ToBf16(Normal(4, static_cast<size_t>(rows) * vocabulary, 3));
  std::vector<int> targets(rows);
  for (int row = 0; row < rows; ++row) {
    targets[row] = row % 5 == 4 ? -100 : static_cast<int>(common::MixBits(5, row) % vocabulary);
  }
  constexpr float kScale = 0.25f;
  DeviceArray<int> dtargets(targets, stream);
  DeviceArray<bf16> dlogits(logits, stream);
  DeviceArray<float> dlosses(rows, stream);
  CrossEntropy(stream, rows, vocabulary, kScale, dtargets.data(), dlogits.data(), dlosses.data());
  const auto gradients = dlogits.ToHost();
  const auto losses = dlosses.ToHost();
  double worst = 0, worst_loss = 0;
  for (int row = 0; row < rows; ++row) {
    const size_t base = static_cast<size_t>(row) * vocabulary;
    double most = -INFINITY, sum = 0;
    for (int v = 0; v < vocabulary; ++v) {
      most = std::max<double>(most, __bfloat162float(logits[base + v]));
    }
    for (int v = 0; v < vocabulary; ++v) {
      sum += std::exp(__bfloat162float(logits[base + v]) - most);
    }
    const int target = targets[row];
    const double loss =
        target < 0 ? 0 : std::log(sum) + most - __bfloat162float(logits[base + target]);
    worst_loss = std::max(worst_loss, Error(losses[row], loss));
    for (int v = 0; v < vocabulary; ++v) {
      const double p = std::exp(__bfloat162float(logits[base + v]) - most) / sum;
      worst = std::max(
          worst, Error(gradients[base + v], target < 0 ? 0 : (p - (v == target ? 1 : 0)) * kScale));
    }
  }
  EXPECT_LT(worst, kBf16Error);
  EXPECT_LT(worst_loss, kF32Error);
}

TEST_F(KernelsTest, CrossEntropyEqualsTheReference) {
  InEachOrder([&] {
    CheckLoss(10, 1000, stream());
    CheckLoss(3, 50, stream());
  });
}

struct AdamWCase {
  AdamWCase(const std::vector<int64_t>& sizes, bool poisoned, cudaStream_t stream) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t n = sizes[i];
      for (int part = 0; part < 4; ++part) {
        host.push_back(Normal(10 + 4 * i + part, n, part == 0 || part == 3 ? 1.f : .1f));
      }
      for (float& v : host[4 * i + 2]) v *= v;
      if (poisoned && i == 2) host[4 * i + 3][n / 2] = NAN;
      for (int part = 0; part < 4; ++part) {
        arrays.push_back(std::make_unique<DeviceArray<float>>(host[4 * i + part], stream));
      }
      parameters.push_back(std::make_unique<DeviceArray<bf16>>(ToBf16(host[4 * i]), stream));
      list.tensors[i] = {arrays[4 * i]->data(),     arrays[4 * i + 1]->data(),
                         arrays[4 * i + 2]->data(), arrays[4 * i + 3]->data(),
                         parameters[i]->data(),     n};
    }
    list.count = static_cast<int>(sizes.size());
  }
  AdamWTensors list{};
  std::vector<std::vector<float>> host;  // master, m, v, gradient of each
  std::vector<std::unique_ptr<DeviceArray<float>>> arrays;
  std::vector<std::unique_ptr<DeviceArray<bf16>>> parameters;
};

TEST_F(KernelsTest, AdamWEqualsTheReference) {
  constexpr int kStep = 3;
  const double rate = 1e-2, beta1 = .9, beta2 = .95, epsilon = 1e-8, decay = .1;
  const double correction1 = 1 / (1 - std::pow(beta1, kStep)),
               correction2 = 1 / (1 - std::pow(beta2, kStep));
  InEachOrder([&] {
    const std::vector<int64_t> sizes = {1000, 1, 513, 2048};
    AdamWCase test(sizes, false, stream());
    DeviceArray<unsigned> flag(std::vector<unsigned>{0}, stream());
    AdamW(stream(), test.list,
          {static_cast<float>(rate), static_cast<float>(beta1), static_cast<float>(beta2),
           static_cast<float>(epsilon), static_cast<float>(decay), static_cast<float>(correction1),
           static_cast<float>(correction2)},
          flag.data());
    EXPECT_EQ(flag.ToHost()[0], 0u);
    double worst = 0, worst_bf16 = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const auto master = test.arrays[4 * i]->ToHost(), m = test.arrays[4 * i + 1]->ToHost();
      const auto parameter = test.parameters[i]->ToHost();
      for (int64_t j = 0; j < sizes[i]; ++j) {
        const double g = test.host[4 * i + 3][j];
        const double new_m = beta1 * test.host[4 * i + 1][j] + (1 - beta1) * g;
        const double new_v = beta2 * test.host[4 * i + 2][j] + (1 - beta2) * g * g;
        const double p = test.host[4 * i][j] * (1 - rate * decay) -
                         rate * (new_m * correction1) / (std::sqrt(new_v * correction2) + epsilon);
        worst = std::max({worst, Error(master[j], p), Error(m[j], new_m)});
        worst_bf16 = std::max(worst_bf16, Error(parameter[j], p));
      }
    }
    EXPECT_LT(worst, kF32Error);
    EXPECT_LT(worst_bf16, kBf16Error);
  });
}

TEST_F(KernelsTest, AdamWChangesNothingWhenAGradientIsNotFinite) {
  InEachOrder([&] {
    AdamWCase test({1000, 1, 513, 100}, true, stream());
    DeviceArray<unsigned> flag(std::vector<unsigned>{0}, stream());
    AdamW(stream(), test.list, {1e-2f, .9f, .95f, 1e-8f, .1f, 1, 1}, flag.data());
    EXPECT_EQ(flag.ToHost()[0], 1u);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(test.arrays[4 * i]->ToHost(), test.host[4 * i]);
      EXPECT_EQ(test.arrays[4 * i + 1]->ToHost(), test.host[4 * i + 1]);
    }
  });
}

TEST_F(KernelsTest, TileProductOnTensorCoresEqualsTheReference) {
  constexpr int kM = 128, kN = 64, kK = 96;
  const auto a = ToBf16(Normal(30, kM * kK)), b = ToBf16(Normal(31, kN * kK));
  InEachOrder([&] {
    DeviceArray<bf16> da(a, stream()), db(b, stream());
    DeviceArray<float> dc(kM * kN, stream());
    TileProduct(stream(), kM, kN, kK, da.data(), db.data(), dc.data());
    const auto c = dc.ToHost();
    double worst = 0;
    for (int i = 0; i < kM; ++i) {
      for (int j = 0; j < kN; ++j) {
        double sum = 0;
        for (int k = 0; k < kK; ++k) {
          sum += static_cast<double>(__bfloat162float(a[i * kK + k])) *
                 __bfloat162float(b[j * kK + k]);
        }
        worst = std::max(worst, Error(c[i * kN + j], sum));
      }
    }
    EXPECT_LT(worst, 1e-5);
  });
}

// Atomics with fences order what came before them: no finding though blocks read each other's sums.
TEST_F(KernelsTest, TheLastBlockAddsUpWhatTheOthersLeft) {
  constexpr int kBlocks = 40, kCount = 10'000;
  std::vector<float> x(kCount);
  double expected = 0;
  for (int i = 0; i < kCount; ++i) expected += x[i] = static_cast<float>(i % 7);
  InEachOrder([&] {
    DeviceArray<float> dx(x, stream()), partials(kBlocks, stream()), total(1, stream());
    DeviceArray<unsigned> ticket(std::vector<unsigned>{0}, stream());
    for (const Ticket kind : {Ticket::kFenced, Ticket::kAcquireRelease}) {
      SumByLastBlock(stream(), kBlocks, kCount, dx.data(), partials.data(), ticket.data(),
                     total.data(), kind);
      EXPECT_EQ(total.ToHost()[0], expected);
    }
  });
}

TEST_F(KernelsTest, WarpsPassDataThroughNamedBarriers) {
  constexpr int kRounds = 5;
  InEachOrder([&] {
    DeviceArray<int> out(kRounds * 32, stream());
    PassBetweenWarps(stream(), kRounds, out.data());
    const auto values = out.ToHost();
    for (int i = 0; i < kRounds * 32; ++i) ASSERT_EQ(values[i], i ^ 1);
  });
}

}  // namespace
}  // namespace strata::standin
