#include "kernels/adamw.h"

#include "kernels/cpu/test_util.h"
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

}  // namespace
}  // namespace strata::kernels
