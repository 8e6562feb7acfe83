// Attention over parts: pairs of spans, each a problem of its own. Of a pair the queries see all
// keys or, when both are the same rows, those up to their own.
#include "kernels/cuda/attention_launch.cuh"

namespace strata::kernels::cuda {
namespace {

constexpr size_t kMostSpans = 64;

absl::Status CheckSpans(const AttentionPartShape& shape) {
  if (shape.queries.size() > kMostSpans || shape.keys.size() > kMostSpans) {
    return absl::InvalidArgumentError(absl::StrCat("attention over ", shape.queries.size(),
                                                   " spans of queries and ", shape.keys.size(),
                                                   " of keys: at most ", kMostSpans, " each"));
  }
  return CheckAttention(shape.held);
}

// Which of a few spans something is true of.
class Marks {
 public:
  explicit Marks(bool all) : bits_(all ? ~uint64_t{0} : 0) {}
  bool operator[](size_t span) const { return (bits_ >> span & 1) != 0; }
  void Set(size_t span) { bits_ |= uint64_t{1} << span; }

 private:
  uint64_t bits_;
};

// Calls body(query, key), indices of spans, for each pair of which rows may see keys, until one
// fails. Of documents and windows the pairs of the same rows come first: the only ones in which
// every row sees a key.
template <typename Body>
absl::Status ForPairs(const AttentionPartShape& shape, const Body& body) {
  const bool limited = shape.positions != nullptr || shape.held.scores.window > 0;
  for (const bool own_round : {true, false}) {
    for (size_t k = 0; k < shape.keys.size(); ++k) {
      for (size_t q = 0; q < shape.queries.size(); ++q) {
        const int64_t query = shape.queries[q].position, key = shape.keys[k].position;
        const bool first_round = !limited || key == query;
        if (key > query || first_round != own_round) continue;
        if (const absl::Status status = body(q, k); !status.ok()) return status;
      }
    }
  }
  return absl::OkStatus();
}

// Of a pair of spans: where its rows are and what they see.
template <typename T>
AttentionProblem<T> ProblemOf(const AttentionPartShape& shape, const RowSpan& query,
                              const RowSpan& key, const T* qkv, const T* kv) {
  const AttentionShape& held = shape.held;
  auto problem =
      ProblemOfHeads<T>(held.batch, held.heads, held.kv_heads, held.head_size, held.scores);
  problem.rows = static_cast<int>(query.count);
  problem.keys = static_cast<int>(key.count);
  problem.offset = key.position == query.position ? 0 : problem.keys - 1;
  problem.lag = static_cast<int>(query.position - key.position);
  if (shape.positions != nullptr) problem.positions = shape.positions + query.first;
  problem.kv_row = 2 * held.kv_heads * held.head_size;
  problem.q = qkv + query.first * problem.q_row;
  problem.k = kv + key.first * problem.kv_row;
  problem.v = problem.k + held.kv_heads * held.head_size;
  problem.q_batch = held.sequence * problem.q_row;
  problem.kv_batch = held.sequence * problem.kv_row;
  problem.out_batch = held.sequence * held.heads * held.head_size;
  problem.lse_rows = held.sequence;
  return problem;
}

}  // namespace

template <typename T>
absl::Status AttentionPartForward(cudaStream_t stream, const AttentionPartShape& shape,
                                  const T* qkv, const T* kv, bool first, T* out, float* lse) {
  if (const absl::Status status = CheckSpans(shape); !status.ok()) return status;
  Marks resumes(!first);
  return ForPairs(shape, [&](size_t q, size_t k) {
    const RowSpan& query = shape.queries[q];
    auto problem = ProblemOf(shape, query, shape.keys[k], qkv, kv);
    problem.out = out + query.first * shape.held.heads * shape.held.head_size;
    problem.lse = lse + query.first;
    problem.resumes = resumes[q];
    resumes.Set(q);
    return ForwardOf(stream, problem);
  });
}

template <typename T>
absl::Status AttentionPartBackward(cudaStream_t stream, const AttentionPartShape& shape,
                                   const T* dout, const T* qkv, const T* kv, const float* lse,
                                   const float* delta, bool first, T* dqkv, T* dkv) {
  if (const absl::Status status = CheckSpans(shape); !status.ok()) return status;
  const AttentionShape& held = shape.held;
  const int64_t kv_row = 2 * held.kv_heads * held.head_size;
  Marks adds_dq(!first), adds_dkv(false);
  const absl::Status status = ForPairs(shape, [&](size_t q, size_t k) {
    const RowSpan &query = shape.queries[q], &key = shape.keys[k];
    auto problem = ProblemOf(shape, query, key, qkv, kv);
    problem.dout = dout + query.first * held.heads * held.head_size;
    problem.lse = const_cast<float*>(lse) + query.first;  // read only
    problem.delta = delta + query.first;
    problem.dq = dqkv + query.first * problem.q_row;
    problem.dk = dkv + key.first * kv_row;
    problem.dv = problem.dk + held.kv_heads * held.head_size;
    problem.adds_dq = adds_dq[q];
    problem.adds_dkv = adds_dkv[k];
    adds_dq.Set(q);
    adds_dkv.Set(k);
    return BackwardOf(stream, problem);
  });
  if (!status.ok()) return status;
  for (size_t k = 0; k < shape.keys.size(); ++k) {
    if (adds_dkv[k]) continue;  // some query may see it
    for (int64_t b = 0; b < held.batch; ++b) {
      T* to = dkv + (b * held.sequence + shape.keys[k].first) * kv_row;
      const cudaError_t error =
          cudaMemsetAsync(to, 0, shape.keys[k].count * kv_row * sizeof(T), stream);
      if (error != cudaSuccess) return StatusOf("zeros of attention's gradient", error);
    }
  }
  return absl::OkStatus();
}

#define STRATA_INSTANTIATE(T)                                                                      \
  template absl::Status AttentionPartForward<T>(cudaStream_t, const AttentionPartShape&, const T*, \
                                                const T*, bool, T*, float*);                       \
  template absl::Status AttentionPartBackward<T>(cudaStream_t, const AttentionPartShape&,          \
                                                 const T*, const T*, const T*, const float*,       \
                                                 const float*, bool, T*, T*)
STRATA_INSTANTIATE(float);
STRATA_INSTANTIATE(BFloat16);
STRATA_INSTANTIATE(Float16);
#undef STRATA_INSTANTIATE

}  // namespace strata::kernels::cuda
