#include "kernels/reference/embedding.h"

namespace strata::kernels::reference {

Doubles EmbeddingForward(int64_t channels, const Tokens& tokens, const Doubles& table) {
  Doubles y;
  for (const int32_t token : tokens) {
    y.insert(y.end(), table.begin() + token * channels, table.begin() + (token + 1) * channels);
  }
  return y;
}

Doubles EmbeddingBackward(int64_t channels, const Tokens& tokens, const Doubles& dy,
                          const Doubles& dtable) {
  Doubles sum = dtable;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    sum[tokens[i / channels] * channels + i % channels] += dy[i];
  }
  return sum;
}

}  // namespace strata::kernels::reference
