#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>

namespace strata::kernels::reference {
namespace {

int64_t FirstSeen(const AttentionShape& s, const Positions& positions, int64_t b, int64_t t) {
  const int64_t first = positions.empty() ? 0 : t - positions[b * s.sequence + t];
  return s.scores.window == 0 ? first : std::max(first, t - s.scores.window + 1);
}

double Scale(const AttentionShape& s) {
  return s.scores.scale > 0 ? s.scores.scale : 1 / std::sqrt(static_cast<double>(s.head_size));
}

double Capped(const AttentionShape& s, double score) {
  const double cap = s.scores.softcap;
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

// Of a capped score by the score.
double Slope(const AttentionShape& s, double score) {
  const double cap = s.scores.softcap;
  return cap > 0 ? 1 - std::pow(std::tanh(score / cap), 2) : 1;
}

}  // namespace

Attention AttentionForward(const AttentionShape& s, const Doubles& qkv,
                           const Positions& positions) {
  const int64_t columns = QkvColumns(s), d = s.head_size;
  Attention result{Doubles(s.batch * s.sequence * s.heads * d),
                   Doubles(s.batch * s.heads * s.sequence)};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t g = h / (s.heads / s.kv_heads);
      for (int64_t t = 0; t < s.sequence; ++t) {
        const int64_t first = FirstSeen(s, positions, b, t);
        const double* q = &qkv[(b * s.sequence + t) * columns + h * d];
        Doubles p(t + 1);
        double sum = 0;
        for (int64_t u = first; u <= t; ++u) {
          const double* k = &qkv[(b * s.sequence + u) * columns + (s.heads + g) * d];
          for (int64_t i = 0; i < d; ++i) p[u] += q[i] * k[i];
          p[u] = std::exp(Capped(s, p[u] * Scale(s)));
          sum += p[u];
        }
        for (int64_t u = first; u <= t; ++u) {
          const double* v = &qkv[(b * s.sequence + u) * columns + (s.heads + s.kv_heads + g) * d];
          for (int64_t i = 0; i < d; ++i) {
            result.out[((b * s.sequence + t) * s.heads + h) * d + i] += p[u] / sum * v[i];
          }
        }
        result.lse[(b * s.heads + h) * s.sequence + t] = std::log(sum);
      }
    }
  }
  return result;
}

// The textbook formulas.
Doubles AttentionBackward(const AttentionShape& s, const Doubles& qkv, const Doubles& dout,
                          const Positions& positions) {
  const int64_t columns = QkvColumns(s), d = s.head_size;
  const double scale = Scale(s);
  Doubles dqkv(qkv.size());
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const int64_t g = h / (s.heads / s.kv_heads);
      const int64_t key = (s.heads + g) * d, value = (s.heads + s.kv_heads + g) * d;
      for (int64_t t = 0; t < s.sequence; ++t) {
        const int64_t first = FirstSeen(s, positions, b, t);
        const int64_t row = (b * s.sequence + t) * columns;
        const double* dy = &dout[((b * s.sequence + t) * s.heads + h) * d];
        Doubles p(t + 1), dp(t + 1), slope(t + 1);
        double sum = 0, mean = 0;
        for (int64_t u = first; u <= t; ++u) {
          const int64_t other = (b * s.sequence + u) * columns;
          for (int64_t i = 0; i < d; ++i) {
            p[u] += qkv[row + h * d + i] * qkv[other + key + i] * scale;
            dp[u] += dy[i] * qkv[other + value + i];
          }
          slope[u] = Slope(s, p[u]);
          p[u] = std::exp(Capped(s, p[u]));
          sum += p[u];
        }
        for (int64_t u = first; u <= t; ++u) mean += (p[u] /= sum) * dp[u];
        for (int64_t u = first; u <= t; ++u) {
          const int64_t other = (b * s.sequence + u) * columns;
          const double ds = p[u] * (dp[u] - mean) * slope[u] * scale;
          for (int64_t i = 0; i < d; ++i) {
            dqkv[row + h * d + i] += ds * qkv[other + key + i];
            dqkv[other + key + i] += ds * qkv[row + h * d + i];
            dqkv[other + value + i] += p[u] * dy[i];
          }
        }
      }
    }
  }
  return dqkv;
}

}  // namespace strata::kernels::reference
