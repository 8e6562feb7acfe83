#include "kernels/reference/headnorm.h"

#include <algorithm>

#include "kernels/reference/rmsnorm.h"

namespace strata::kernels::reference {
namespace {

Doubles Slice(const Doubles& values, int64_t at, int64_t count) {
  return {values.begin() + at, values.begin() + at + count};
}

Doubles Shifted(const HeadNormShape& shape, const Doubles& w) {
  Doubles result = w;
  for (double& value : result) value += shape.plus_one ? 1 : 0;
  return result;
}

}  // namespace

HeadNorm HeadNormForward(const HeadNormShape& shape, double epsilon, const Doubles& qkv,
                         const Doubles& wq, const Doubles& wk) {
  HeadNorm norm{qkv, {}};
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t head = 0; head < shape.norms(); ++head) {
      const int64_t at = row * shape.width() + head * shape.head_size;
      const RmsNorm one =
          RmsNormForward(1, shape.head_size, epsilon, Slice(qkv, at, shape.head_size),
                         Shifted(shape, head < shape.heads ? wq : wk));
      std::copy(one.y.begin(), one.y.end(), norm.out.begin() + at);
      norm.rstd.push_back(one.rstd[0]);
    }
  }
  return norm;
}

HeadNormGradient HeadNormBackward(const HeadNormShape& shape, const Doubles& dout,
                                  const Doubles& qkv, const Doubles& wq, const Doubles& wk,
                                  const Doubles& rstd) {
  const int64_t size = shape.head_size;
  HeadNormGradient gradient{dout, Doubles(size), Doubles(size)};
  for (int64_t row = 0; row < shape.rows; ++row) {
    for (int64_t head = 0; head < shape.norms(); ++head) {
      const int64_t at = row * shape.width() + head * size;
      const bool query = head < shape.heads;
      const RmsNormGradient one =
          RmsNormBackward(1, size, Slice(dout, at, size), Slice(qkv, at, size),
                          Shifted(shape, query ? wq : wk), {rstd[row * shape.norms() + head]});
      std::copy(one.dx.begin(), one.dx.end(), gradient.dqkv.begin() + at);
      Doubles& dw = query ? gradient.dwq : gradient.dwk;
      for (int64_t i = 0; i < size; ++i) dw[i] += one.dw[i];
    }
  }
  return gradient;
}

}  // namespace strata::kernels::reference
