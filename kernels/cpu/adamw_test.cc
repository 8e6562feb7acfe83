#include "kernels/adamw.h"

#include "kernels/cpu/test_util.h"
#include "kernels/cpu/update_testing.h"
#include "kernels/reference/adamw.h"

namespace strata::kernels {
namespace {

using testing::Doubles;
using testing::Floats;

TEST(AdamW, TwentyStepsMatchTheReferenceInPlaceAndOutOfPlace) {
  for (const int64_t count : {1, 8, 1003, 20000}) {
    const Floats start = testing::Random(count, 1);
    reference::AdamWState expected = {testing::Widen(start), Doubles(count), Doubles(count)};
    AdamWParams params = {.learning_rate = 1e-2, .weight_decay = 0.1, .grad_factor = 0.7};
    for (int64_t step = 1; step <= 20; ++step) {
      params.step = step;
      reference::AdamW(params, testing::Widen(testing::Random(count, 100 + step)), &expected);
    }
    const Floats result = testing::RunWithThreads([&](const Context& c) {
      Floats param = start, m(count), v(count);
      for (int64_t step = 1; step <= 20; ++step) {
        params.step = step;
        const Floats grad = testing::Random(count, 100 + step);
        Floats param_out(count), m_out(count), v_out(count);
        AdamW(c, count, params, grad.data(), param.data(), m.data(), v.data(), param_out.data(),
              m_out.data(), v_out.data());
        AdamW(c, count, params, grad.data(), param.data(), m.data(), v.data(), param.data(),
              m.data(), v.data());
        EXPECT_TRUE(testing::SameBits(testing::Concat({param, m, v}),
                                      testing::Concat({param_out, m_out, v_out})));
      }
      return testing::Concat({param, m, v});
    });
    testing::ExpectClose(result, testing::Concat({expected.param, expected.m, expected.v}), 1e-6);
  }
}

TEST(AdamW, FixUpIsWithinRoundingOfTheClippedUpdateAndInPlaceGivesTheSameBits) {
  const int64_t count = 20003;
  const Floats start = testing::Random(count, 1), m = testing::Random(count, 2);
  Floats v = testing::Random(count, 3);
  for (float& value : v) value = value * value;
  const Floats grad = testing::Random(count, 4, 5);
  AdamWParams params = {.learning_rate = 1e-2, .weight_decay = 0.1, .step = 7};
  const Floats result = testing::RunWithThreads([&](const Context& c) {
    AdamWParams speculative = params, clipped = params;
    clipped.grad_factor = 0.3;
    Floats param_next(count), m_next(count), v_next(count), param = start, first = m, second = v;
    AdamW(c, count, speculative, grad.data(), start.data(), m.data(), v.data(), param_next.data(),
          m_next.data(), v_next.data());
    AdamWFixUp(c, count, clipped, m_next.data(), start.data(), m.data(), v.data(),
               param_next.data(), m_next.data(), v_next.data());
    Floats m_speculative(count), unused(count), unused_too(count);
    AdamW(c, count, speculative, grad.data(), start.data(), m.data(), v.data(), unused.data(),
          m_speculative.data(), unused_too.data());
    AdamWFixUp(c, count, clipped, m_speculative.data(), param.data(), first.data(), second.data(),
               param.data(), first.data(), second.data());
    EXPECT_TRUE(testing::SameBits(testing::Concat({param, first, second}),
                                  testing::Concat({param_next, m_next, v_next})));
    return testing::Concat({param, first, second});
  });
  reference::AdamWState expected = {testing::Widen(start), testing::Widen(m), testing::Widen(v)};
  params.grad_factor = 0.3;
  reference::AdamW(params, testing::Widen(grad), &expected);
  testing::ExpectClose(result, testing::Concat({expected.param, expected.m, expected.v}), 1e-6);
  // In double precision the gradient comes back whole.
  AdamWParams speculative = params;
  speculative.grad_factor = 1;
  const reference::AdamWState start_state = {testing::Widen(start), testing::Widen(m),
                                             testing::Widen(v)};
  reference::AdamWState next = start_state, again = start_state;
  reference::AdamW(speculative, testing::Widen(grad), &next);
  reference::AdamWFixUp(params, next.m, &again);
  testing::ExpectClose(testing::Concat({again.param, again.m, again.v}),
                       testing::Concat({expected.param, expected.m, expected.v}), 1e-13);
}

TEST(AdamW, AnElementIsTheSameBitsWhereverItsRangeBegins) {
  const int64_t count = 37;
  const AdamWParams params = {.learning_rate = 1e-2, .weight_decay = 0.1, .step = 3};
  const Floats start = testing::Random(count, 1), grad = testing::Random(count, 2);
  const auto run = [&](int64_t cut) {
    device::ThreadPool pool(1);
    Floats param = start, m = testing::Random(count, 3), v(count, 0.25f);
    for (const auto& [begin, size] : {std::pair{int64_t{0}, cut}, std::pair{cut, count - cut}}) {
      AdamW({&pool}, size, params, grad.data() + begin, param.data() + begin, m.data() + begin,
            v.data() + begin, param.data() + begin, m.data() + begin, v.data() + begin);
    }
    return testing::Concat({param, m, v});
  };
  const Floats whole = run(0);
  for (int64_t cut = 1; cut < count; ++cut) EXPECT_TRUE(testing::SameBits(whole, run(cut)));
}

using testing::OwnNumbers;

// Updates of 300 steps, with a gradient whose scale changes.
void Train(const Context& context, int64_t count, OwnNumbers& own) {
  AdamWParams params = {.learning_rate = 1e-3, .weight_decay = 0.1};
  for (params.step = 1; params.step <= 300; ++params.step) {
    own.SetGradient(testing::Random(count, 100 + params.step, params.step % 7 == 0 ? 3 : 0.1));
    MixedAdamW(context, 0, count, params, own.numbers());
  }
}

TEST(MixedAdamW, InF32HasTheBitsOfThePlainUpdate) {
  const int64_t count = 20003;
  const Floats start = testing::Random(count, 1);
  const AdamWParams params = {.learning_rate = 1e-2, .weight_decay = 0.1, .grad_factor = 0.7};
  const Floats gradient = testing::Random(count, 2);
  testing::RunWithThreads([&](const Context& c) {
    OwnNumbers own(count, NumberType::kF32, MasterFormat::kNone,
                   {MomentFormat::kF32, MomentFormat::kF32});
    own.SetWeights(start);
    own.SetGradient(gradient);
    MixedAdamW(c, 0, 16, params, own.numbers());
    MixedAdamW(c, 16, count, params, own.numbers());
    Floats param = start, m(count), v(count);
    AdamW(c, count, params, gradient.data(), param.data(), m.data(), v.data(), param.data(),
          m.data(), v.data());
    const Floats mixed = testing::Concat({own.Masters(), own.Moment(0), own.Moment(1)});
    EXPECT_TRUE(testing::SameBits(mixed, testing::Concat({param, m, v})));
    return mixed;
  });
}

// What an update reads and writes, in one place or in two.
struct TwoVersions {
  TwoVersions(int64_t count, NumberType type, MasterFormat master,
              const std::vector<MomentFormat>& moments, const Floats& start)
      : now(count, type, master, moments), next(count, type, master, moments) {
    now.SetWeights(start);
    now.numbers().gradient_type = type;
    now.SetGradient(testing::Random(count, 19));  // of 16 bits: twice as many, and of any size
    for (int m = 0; m < kMostMoments; ++m) {
      Floats values = testing::Random(count, 20 + m);
      for (float& value : values) value = m == 0 ? value : value * value;
      WriteMoments(now.numbers().moments[m], 0, count, values.data());
    }
  }
  void UseBoth() {
    now.numbers().next_weights = next.numbers().weights;
    now.numbers().next_moments = next.numbers().moments;
  }
  OwnNumbers now, next;
};

TEST(MixedAdamW, IsTheUpdateInF32OfNumbersThatWereReadAndAreWrittenAsAWhole) {
  using enum MomentFormat;
  const int64_t count = 5 * kMomentBlock;
  const AdamWParams params = {
      .learning_rate = 1e-2, .weight_decay = 0.1, .step = 3, .grad_factor = 0.7};
  const Floats start = testing::Random(count, 1);
  device::ThreadPool pool(2);
  const Context context{&pool};
  for (const auto& [type, master] : {std::pair{NumberType::kF32, MasterFormat::kNone},
                                     {NumberType::kBF16, MasterFormat::kF32},
                                     {NumberType::kBF16, MasterFormat::kRemainder},
                                     {NumberType::kF16, MasterFormat::kF32}}) {
    for (const auto& [m, v] : {std::pair{kF32, kF32}, {kBF16, kBF16}, {kSigned8, kUnsigned8}}) {
      const std::vector<MomentFormat> formats = {m, v};
      TwoVersions once(count, type, master, formats, start);
      TwoVersions apart(count, type, master, formats, start);
      OwnNumbers expected(count, type, master, formats);
      Floats param = once.now.Masters(), first = once.now.Moment(0), second = once.now.Moment(1);
      Floats gradient(count);
      const NumbersOfUpdate& numbers = once.now.numbers();
      ReadNumbers(type, numbers.gradient, 0, count, gradient.data());
      AdamW(context, count, params, gradient.data(), param.data(), first.data(), second.data(),
            param.data(), first.data(), second.data());
      expected.SetWeights(param);
      WriteMoments(expected.numbers().moments[0], 0, count, first.data());
      WriteMoments(expected.numbers().moments[1], 0, count, second.data());

      MixedAdamW(context, 0, count, params, numbers);
      apart.UseBoth();
      MixedAdamW(context, 0, 2 * kMomentBlock, params, apart.now.numbers());
      MixedAdamW(context, 2 * kMomentBlock, count, params, apart.now.numbers());
      for (const OwnNumbers* own : {&once.now, &apart.next}) {
        EXPECT_TRUE(testing::SameBits(own->Masters(), expected.Masters()));
        EXPECT_TRUE(testing::SameBits(own->Weights(), expected.Weights()));
        for (const int i : {0, 1}) {
          EXPECT_TRUE(testing::SameBits(own->Moment(i), expected.Moment(i)));
        }
      }
      EXPECT_TRUE(testing::SameBits(
          apart.now.Masters(), TwoVersions(count, type, master, formats, start).now.Masters()));
    }
  }
}

TEST(MixedAdamW, MastersInF32AndSplitHaveTheSameBitsForHundredsOfSteps) {
  const int64_t count = 5 * kMomentBlock;
  device::ThreadPool pool(2);
  for (const MomentFormat format :
       {MomentFormat::kF32, MomentFormat::kBF16, MomentFormat::kSigned8}) {
    const bool blocks = format == MomentFormat::kSigned8;
    const std::vector<MomentFormat> moments = {format, blocks ? MomentFormat::kUnsigned8 : format};
    OwnNumbers f32(count, NumberType::kBF16, MasterFormat::kF32, moments);
    OwnNumbers split(count, NumberType::kBF16, MasterFormat::kRemainder, moments);
    for (OwnNumbers* own : {&f32, &split}) {
      own->SetWeights(testing::Random(count, 1));
      Train({&pool}, count, *own);
    }
    EXPECT_TRUE(testing::SameBits(f32.Masters(), split.Masters()));
    EXPECT_TRUE(testing::SameBits(f32.Weights(), split.Weights()));
    for (const int m : {0, 1}) EXPECT_TRUE(testing::SameBits(f32.Moment(m), split.Moment(m)));
    const Floats masters = f32.Masters(), weights = f32.Weights();
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(weights[i], ToFloat(RoundAwayToBFloat16(masters[i])));
    }
  }
}

TEST(MixedAdamW, MastersOfNarrowWeightsAreThoseOfF32AndNarrowMomentsStayNearIt) {
  const int64_t count = 5 * kMomentBlock;
  device::ThreadPool pool(2);
  const auto train = [&](NumberType type, MasterFormat master, MomentFormat m, MomentFormat v) {
    OwnNumbers own(count, type, master, {m, v});
    own.SetWeights(testing::Random(count, 1));
    Train({&pool}, count, own);
    return own.Masters();
  };
  const Floats expected =
      train(NumberType::kF32, MasterFormat::kNone, MomentFormat::kF32, MomentFormat::kF32);
  for (const NumberType type : {NumberType::kBF16, NumberType::kF16}) {
    EXPECT_TRUE(testing::SameBits(
        expected, train(type, MasterFormat::kF32, MomentFormat::kF32, MomentFormat::kF32)));
  }
  const Floats of_bf16 =
      train(NumberType::kF32, MasterFormat::kNone, MomentFormat::kBF16, MomentFormat::kBF16);
  const Floats of_8_bits = train(NumberType::kF32, MasterFormat::kNone, MomentFormat::kSigned8,
                                 MomentFormat::kUnsigned8);
  double bf16 = 0, eight = 0, moved = 0;
  const Floats start = testing::Random(count, 1);
  for (int64_t i = 0; i < count; ++i) {
    moved += std::abs(expected[i] - start[i]);
    bf16 += std::abs(of_bf16[i] - expected[i]);
    eight += std::abs(of_8_bits[i] - expected[i]);
  }
  EXPECT_LT(bf16, 0.15 * moved);
  EXPECT_LT(eight, 0.15 * moved);
}

}  // namespace
}  // namespace strata::kernels
