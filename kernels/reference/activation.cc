#include "kernels/reference/activation.h"

#include <cmath>
#include <numbers>

namespace strata::kernels::reference {
namespace {

const double kTanhFactor = std::sqrt(2 / std::numbers::pi);

double Normal(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

}  // namespace

double Activation(Function function, double x) {
  switch (function) {
    case Function::kSilu:
      return x / (1 + std::exp(-x));
    case Function::kGeluTanh:
      // (1 + tanh(u)) / 2 in a form that keeps the lower tail's digits.
      return x / (1 + std::exp(-2 * kTanhFactor * (x + 0.044715 * x * x * x)));
    case Function::kGelu:
      return x * Normal(x);
  }
  return 0;
}

double ActivationSlope(Function function, double x) {
  switch (function) {
    case Function::kSilu: {
      const double sigmoid = 1 / (1 + std::exp(-x));
      return sigmoid * (1 + x * (1 - sigmoid));
    }
    case Function::kGeluTanh: {
      const double tanh = std::tanh(kTanhFactor * (x + 0.044715 * x * x * x));
      const double turn = kTanhFactor * (1 + 3 * 0.044715 * x * x);
      return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * turn;
    }
    case Function::kGelu:
      return Normal(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
  }
  return 0;
}

Doubles GatedForward(int64_t rows, int64_t ffn, Function function, const Doubles& gate_up) {
  Doubles h(rows * ffn);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < ffn; ++i) {
      const double gate = gate_up[row * 2 * ffn + i], up = gate_up[row * 2 * ffn + ffn + i];
      h[row * ffn + i] = Activation(function, gate) * up;
    }
  }
  return h;
}

Doubles GatedBackward(int64_t rows, int64_t ffn, Function function, const Doubles& dh,
                      const Doubles& gate_up) {
  Doubles gradient(gate_up.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < ffn; ++i) {
      const int64_t at = row * 2 * ffn + i;
      const double gate = gate_up[at], up = gate_up[at + ffn], d = dh[row * ffn + i];
      gradient[at] = d * up * ActivationSlope(function, gate);
      gradient[at + ffn] = d * Activation(function, gate);
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
