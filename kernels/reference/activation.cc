#include "kernels/reference/activation.h"

#include <cmath>

namespace strata::kernels::reference {

Doubles SwiGluForward(int64_t rows, int64_t ffn, const Doubles& gate_up) {
  Doubles h(rows * ffn);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < ffn; ++i) {
      const double gate = gate_up[row * 2 * ffn + i], up = gate_up[row * 2 * ffn + ffn + i];
      h[row * ffn + i] = gate / (1 + std::exp(-gate)) * up;
    }
  }
  return h;
}

Doubles SwiGluBackward(int64_t rows, int64_t ffn, const Doubles& dh, const Doubles& gate_up) {
  Doubles gradient(gate_up.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < ffn; ++i) {
      const int64_t at = row * 2 * ffn + i;
      const double gate = gate_up[at], up = gate_up[at + ffn], d = dh[row * ffn + i];
      const double sigmoid = 1 / (1 + std::exp(-gate));
      gradient[at] = d * up * sigmoid * (1 + gate * (1 - sigmoid));
      gradient[at + ffn] = d * gate * sigmoid;
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
