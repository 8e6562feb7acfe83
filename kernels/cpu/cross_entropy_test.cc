#include "kernels/cross_entropy.h"

#include <algorithm>
#include <limits>

#include "kernels/cpu/test_util.h"
#include "kernels/reference/cross_entropy.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

constexpr float kScale = 0.125f;

std::vector<int32_t> Targets(int64_t rows, int64_t vocab) {
  std::vector<int32_t> targets(rows);
  for (int64_t row = 0; row < rows; ++row) targets[row] = row % 4 == 2 ? -1 : (row * 7) % vocab;
  return targets;
}

Floats RunBoth(const Context& c, int64_t rows, int64_t vocab, const int32_t* targets, Floats logits,
               double* loss) {
  testing::Workspace workspace(CrossEntropyWorkspaceBytes(rows));
  double loss_only = *loss;
  CrossEntropyForward(c, {rows, vocab}, targets, logits.data(), &loss_only, workspace.get());
  CrossEntropyForwardBackward(c, {rows, vocab}, kScale, targets, logits.data(), loss,
                              workspace.get());
  EXPECT_EQ(loss_only, *loss);
  return logits;
}

TEST(CrossEntropy, LossAndGradientMatchTheReference) {
  constexpr struct {
    int64_t rows, vocab;
  } kShapes[] = {{1, 1}, {5, 3}, {7, 17}, {9, 64}, {21, 259}, {6, 40001}};
  for (const auto [rows, vocab] : kShapes) {
    const Floats logits = testing::Random(rows * vocab, 1, 4);
    const auto targets = Targets(rows, vocab);
    const double expected = reference::CrossEntropyLoss(vocab, targets, testing::Widen(logits));
    double first_loss = 0;
    const Floats result = testing::RunWithThreads([&, r = rows, v = vocab](const Context& c) {
      double loss = 2;
      Floats gradient = RunBoth(c, r, v, targets.data(), logits, &loss);
      EXPECT_NEAR(loss - 2, expected, 1e-6 * (1 + expected));
      if (first_loss == 0) first_loss = loss;
      EXPECT_EQ(loss, first_loss);
      return gradient;
    });
    const Doubles gradient =
        reference::CrossEntropyGradient(vocab, kScale, targets, testing::Widen(logits));
    testing::ExpectClose(result, gradient, 1e-6);
    for (int64_t row = 2; row < rows; row += 4) {
      for (int64_t i = 0; i < vocab; ++i) ASSERT_EQ(result[row * vocab + i], 0.0f);
    }
  }
}

TEST(CrossEntropy, GradientMatchesFiniteDifferences) {
  const int64_t rows = 6, vocab = 11;
  const Floats logits = testing::Random(rows * vocab, 2);
  const auto targets = Targets(rows, vocab);
  Doubles expected = testing::FiniteDifferences(testing::Widen(logits), [&](const Doubles& x) {
    return kScale * reference::CrossEntropyLoss(vocab, targets, x);
  });
  device::ThreadPool pool(1);
  testing::ExpectClose(
      reference::CrossEntropyGradient(vocab, kScale, targets, testing::Widen(logits)), expected,
      1e-7);
  double loss = 0;
  testing::ExpectClose(RunBoth({&pool}, rows, vocab, targets.data(), logits, &loss), expected,
                       1e-6);
}

TEST(CrossEntropy, TheLossDoesNotDependOnTheChunks) {
  const int64_t rows = 50, vocab = 70;
  const Floats logits = testing::Random(rows * vocab, 3, 3);
  const auto targets = Targets(rows, vocab);
  device::ThreadPool pool(2);
  double whole = 0, chunked = 0;
  const Floats gradient = RunBoth({&pool}, rows, vocab, targets.data(), logits, &whole);
  for (int64_t row = 0; row < rows; row += 13) {
    const int64_t count = std::min<int64_t>(13, rows - row);
    const Floats chunk(logits.begin() + row * vocab, logits.begin() + (row + count) * vocab);
    const Floats part = RunBoth({&pool}, count, vocab, targets.data() + row, chunk, &chunked);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), gradient.begin() + row * vocab));
  }
  EXPECT_EQ(whole, chunked);
}

// Both ops on `parts` parts of the vocabulary of `columns` each, the last ones with padding that
// holds large logits: the gradient of whole rows, and each rank's loss.
Floats RunParts(const Context& c, int64_t rows, int64_t vocab, int64_t parts, int64_t columns,
                const int32_t* targets, const Floats& logits, std::vector<double>* losses) {
  Floats statistics(parts * rows * 3), gradient(logits.size());
  std::vector<Floats> own(parts, Floats(rows * columns, 100.0F));
  std::vector<VocabularyPart> of;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t used = std::clamp<int64_t>(vocab - p * columns, 0, columns);
    of.push_back({rows, columns, p * columns, 0, columns - used});
    for (int64_t i = 0; i < rows * used; ++i) {
      own[p][i / used * columns + i % used] = logits[i / used * vocab + p * columns + i % used];
    }
    CrossEntropyStatistics(c, of[p], targets, own[p].data(), statistics.data() + p * rows * 3);
  }
  losses->assign(parts, 0);
  for (int64_t p = 0; p < parts; ++p) {
    CrossEntropyFinish(c, of[p], parts, kScale, targets, statistics.data(), own[p].data(),
                       &(*losses)[p]);
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t column = p * columns + i % columns;
      if (column < vocab) {
        gradient[i / columns * vocab + column] = own[p][i];
      } else {
        EXPECT_EQ(own[p][i], 0) << "padding";
      }
    }
  }
  return gradient;
}

TEST(CrossEntropy, PartsOfTheVocabularyGiveTheLossAndGradientOfTheWhole) {
  constexpr struct {
    int64_t rows, vocab, parts, columns;
  } kShapes[] = {{1, 2, 2, 1},  {7, 17, 1, 17},  {9, 64, 4, 16},      {21, 259, 7, 37},
                 {3, 17, 4, 8}, {5, 101, 2, 56}, {6, 40000, 8, 5000}, {6, 40001, 2, 20008}};
  for (const auto [rows, vocab, parts, columns] : kShapes) {
    const Floats logits = testing::Random(rows * vocab, 5, 4);
    const auto targets = Targets(rows, vocab);
    const double expected = reference::CrossEntropyLoss(vocab, targets, testing::Widen(logits));
    const Floats result =
        testing::RunWithThreads([&, r = rows, v = vocab, p = parts, k = columns](const Context& c) {
          std::vector<double> losses;
          Floats gradient = RunParts(c, r, v, p, k, targets.data(), logits, &losses);
          for (const double loss : losses) {
            EXPECT_NEAR(loss, expected, 1e-6 * (1 + expected));
            EXPECT_EQ(loss, losses[0]);
          }
          return gradient;
        });
    testing::ExpectClose(
        result, reference::CrossEntropyGradient(vocab, kScale, targets, testing::Widen(logits)),
        1e-6);
  }
}

TEST(CrossEntropy, OfPartsHugeLogitsStayFiniteAndNonFiniteOnesShow) {
  const int32_t target = 0;
  device::ThreadPool pool(1);
  std::vector<double> losses;
  const Floats gradient =
      RunParts({&pool}, 1, 4, 2, 2, &target, {1e30f, -1e30f, -1e30f, 1e30f}, &losses);
  EXPECT_NEAR(losses[0], std::log(2), 1e-6);
  EXPECT_EQ(gradient, (Floats{-kScale / 2, 0, 0, kScale / 2}));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (int64_t at = 0; at < 20; ++at) {
      Floats logits = testing::Random(20, 4);
      logits[at] = bad;
      RunParts({&pool}, 1, 20, 4, 5, &target, logits, &losses);
      for (const double loss : losses) EXPECT_FALSE(std::isfinite(loss)) << bad << " at " << at;
    }
  }
}

TEST(CrossEntropy, HugeLogitsStayFiniteAndNonFiniteOnesShow) {
  const int32_t target = 0;
  device::ThreadPool pool(1);
  double loss = 0;
  const Floats gradient = RunBoth({&pool}, 1, 3, &target, {1e30f, -1e30f, 1e30f}, &loss);
  EXPECT_NEAR(loss, std::log(2), 1e-6);
  EXPECT_EQ(gradient, (Floats{-kScale / 2, 0, kScale / 2}));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (int64_t at = 0; at < 20; ++at) {
      Floats logits = testing::Random(20, 4);
      logits[at] = bad;
      Floats workspace(8);
      double sum = 0;
      CrossEntropyForwardBackward({&pool}, {1, 20}, kScale, &target, logits.data(), &sum,
                                  workspace.data());
      EXPECT_FALSE(std::isfinite(sum)) << bad << " at " << at;
    }
  }
}

// Whole rows and parts of them, of a type, with a cap or without.
template <typename T>
void ExpectLoss(float softcap, int64_t rows, int64_t vocab, int64_t parts) {
  const std::vector<T> logits = testing::RandomOf<T>(rows * vocab, 1, 8);
  const auto targets = Targets(rows, vocab);
  const Doubles wide = testing::WidenOf(logits);
  const double expected = reference::CrossEntropyLoss(vocab, targets, wide, softcap);
  const Doubles gradient = reference::CrossEntropyGradient(vocab, kScale, targets, wide, softcap);
  const Floats whole = testing::RunWithThreads([&](const Context& c) {
    std::vector<T> x = logits;
    double loss = 0, loss_only = 0;
    testing::Workspace workspace(CrossEntropyWorkspaceBytes(rows));
    const LossShape shape{rows, vocab, softcap};
    CrossEntropyForward(c, shape, targets.data(), x.data(), &loss_only, workspace.get());
    CrossEntropyForwardBackward(c, shape, kScale, targets.data(), x.data(), &loss, workspace.get());
    EXPECT_EQ(loss, loss_only);
    EXPECT_NEAR(loss, expected, 2e-6 * (1 + expected));
    return testing::Back(x);
  });
  testing::ExpectRounded<T>(whole, gradient, 2e-6);
  const int64_t columns = vocab / parts;
  device::ThreadPool pool(2);
  const Context c{&pool};
  Floats statistics(parts * rows * 3), joined(logits.size());
  std::vector<std::vector<T>> own(parts, std::vector<T>(rows * columns));
  for (int64_t p = 0; p < parts; ++p) {
    for (int64_t i = 0; i < rows * columns; ++i) {
      own[p][i] = logits[i / columns * vocab + p * columns + i % columns];
    }
    CrossEntropyStatistics(c, {rows, columns, p * columns, softcap}, targets.data(), own[p].data(),
                           statistics.data() + p * rows * 3);
  }
  for (int64_t p = 0; p < parts; ++p) {
    double loss = 0;
    CrossEntropyFinish(c, {rows, columns, p * columns, softcap}, parts, kScale, targets.data(),
                       statistics.data(), own[p].data(), &loss);
    EXPECT_NEAR(loss, expected, 2e-6 * (1 + expected));
    for (int64_t i = 0; i < rows * columns; ++i) {
      joined[i / columns * vocab + p * columns + i % columns] = ToFloat(own[p][i]);
    }
  }
  testing::ExpectRounded<T>(joined, gradient, 2e-6);
}

TEST(CrossEntropy, OfEveryTypeCappedOrNot_MatchesTheReferenceWholeAndInParts) {
  for (const float softcap : {0.0f, 30.0f, 5.0f}) {
    ExpectLoss<float>(softcap, 9, 257, 1);
    ExpectLoss<BFloat16>(softcap, 9, 259, 7);
    ExpectLoss<Float16>(softcap, 9, 259, 7);
    ExpectLoss<float>(softcap, 5, 36, 4);
    ExpectLoss<BFloat16>(softcap, 1, 5, 5);
  }
}

TEST(CrossEntropy, ReferenceGradientOfCappedLogitsMatchesFiniteDifferences) {
  const int64_t rows = 6, vocab = 11;
  const auto targets = Targets(rows, vocab);
  const Doubles logits = testing::Widen(testing::Random(rows * vocab, 2, 4));
  const Doubles expected = testing::FiniteDifferences(logits, [&](const Doubles& x) {
    return kScale * reference::CrossEntropyLoss(vocab, targets, x, 5);
  });
  testing::ExpectClose(reference::CrossEntropyGradient(vocab, kScale, targets, logits, 5), expected,
                       1e-7);
}

}  // namespace
}  // namespace strata::kernels
