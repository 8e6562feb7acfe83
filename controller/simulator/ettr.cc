#include "controller/simulator/ettr.h"

#include <cmath>

namespace strata::simulator {

double ExpectedEttr(double rate, double interval, double stall, double pause) {
  const double segment = interval + stall;
  if (rate <= 0) return segment > 0 ? interval / segment : 1;
  return interval / ((1 / rate + pause) * std::expm1(rate * segment));
}

}  // namespace strata::simulator
