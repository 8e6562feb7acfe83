// Measures every kernel on the shapes of two models and prints it beside the machine's limits of
// the same run.
//
//   kernels_bench [--benchmark_filter REGEX] [--threads N] [--seconds S] [--clock wall|cpu]
//                [--json FILE]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/check.h"
#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/bench_harness.h"
#include "kernels/convert.h"
#include "kernels/cross_entropy.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/init.h"
#include "kernels/int8.h"
#include "kernels/isa.h"
#include "kernels/matmul.h"
#include "kernels/nf4.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"

namespace strata::kernels {
namespace {

struct Model {
  std::string name;
  int64_t rows, sequence, hidden, heads, kv_heads, ffn, vocab;
  int64_t head_size() const { return hidden / heads; }
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_size(); }
};

const Model kModels[] = {
    {"124m", 2048, 512, 768, 12, 4, 2048, 32000},
    {"small", 2048, 256, 192, 6, 2, 512, 256},
};

// Numbers of an optimizer, by its job's `optimizer: {master, state}`.
struct UpdateNumbers {
  std::string name;
  NumberType weights;
  MasterFormat master;
  MomentFormat moments[kMostMoments];
};

const UpdateNumbers kUpdates[] = {
    {"f32/f32", NumberType::kF32, MasterFormat::kNone, {MomentFormat::kF32, MomentFormat::kF32}},
    {"f32/8bit",
     NumberType::kF32,
     MasterFormat::kNone,
     {MomentFormat::kSigned8, MomentFormat::kUnsigned8}},
    {"bf16_f32/f32",
     NumberType::kBF16,
     MasterFormat::kF32,
     {MomentFormat::kF32, MomentFormat::kF32}},
    {"bf16_split/f32",
     NumberType::kBF16,
     MasterFormat::kRemainder,
     {MomentFormat::kF32, MomentFormat::kF32}},
    {"bf16_split/bf16",
     NumberType::kBF16,
     MasterFormat::kRemainder,
     {MomentFormat::kBF16, MomentFormat::kBF16}},
    {"bf16_split/8bit",
     NumberType::kBF16,
     MasterFormat::kRemainder,
     {MomentFormat::kSigned8, MomentFormat::kUnsigned8}},
};

class Bench final : public BenchHarness {
 public:
  explicit Bench(const BenchOptions& options) : BenchHarness(options) {}

  void Run() {
    MeasureLimits();
    for (const Model& model : kModels) {
      Matmuls(model);
      Attention(model);
      Rows(model);
      CrossEntropies(model);
    }
    Flat();
    Conversions();
    Squares();
  }

 private:
  const void* Factor(Buffers& buffers, NumberType type, int64_t count) const {
    float* f32 = buffers.Get(count);
    if (type == NumberType::kF32) return f32;
    auto* bf16 = reinterpret_cast<BFloat16*>(buffers.Get(count));
    Convert(context_, count, f32, bf16);
    return bf16;
  }

  void Matmul(const std::string& name, const MatmulShape& shape, MatmulBackend backend) {
    if (!Wanted(name)) return;
    auto plan = MatmulPlan::Create(shape, pool_.threads(), backend);
    STRATA_CHECK(plan.ok());
    Buffers buffers;
    const void* a = Factor(buffers, shape.type, shape.m * shape.k);
    const void* b = Factor(buffers, shape.type, shape.k * shape.n);
    float* c = buffers.Get(shape.m * shape.n);
    void* workspace = buffers.Workspace(MatmulWorkspaceBytes(shape, pool_.threads()));
    const double m = shape.m, n = shape.n, k = shape.k;
    const double in = shape.type == NumberType::kF32 ? 4 : 2;
    const double out = shape.out_type == NumberType::kF32 ? 4 : 2;
    Measure(name, 2 * m * n * k, in * (m * k + k * n) + out * m * n * (shape.accumulate ? 2 : 1),
            [&] { plan->Run(context_, a, b, c, workspace); });
  }

  // Forward x W^T, towards x dy W, towards W dy^T x.
  void Projection(const Model& model, const std::string& what, int64_t in, int64_t out) {
    const std::string name = "matmul/" + model.name + "/" + what;
    const MatmulBackend backend = MatmulBackend::kAuto;
    Matmul(name + "/forward", {.m = model.rows, .n = out, .k = in, .trans_b = true}, backend);
    Matmul(name + "/dx", {.m = model.rows, .n = in, .k = out}, backend);
    Matmul(name + "/dw", {.m = out, .n = in, .k = model.rows, .trans_a = true, .accumulate = true},
           backend);
  }

  void Matmuls(const Model& model) {
    Projection(model, "qkv", model.hidden, model.qkv());
    Projection(model, "out", model.hidden, model.hidden);
    Projection(model, "gate_up", model.hidden, 2 * model.ffn);
    Projection(model, "down", model.ffn, model.hidden);
    Model chunk = model;
    chunk.rows = std::min<int64_t>(model.rows, 512);  // logits are made in chunks
    Projection(chunk, "head", model.hidden, model.vocab);
    Matmul("matmul/" + model.name + "/head/decode_1_row",
           {.m = 1, .n = model.vocab, .k = model.hidden, .trans_b = true}, MatmulBackend::kAuto);
  }

  void BothBackends(const std::string& name, const MatmulShape& shape) {
    Matmul(name + "/own", shape, MatmulBackend::kOwn);
    Matmul(name + "/onednn", shape, MatmulBackend::kOneDnn);
  }

  void Tiles(const std::string& name, const MatmulShape& shape) {
    if (!MatmulPlan::Create(shape, 1, MatmulBackend::kTiles).ok()) return;  // no AMX
    Matmul(name, shape, MatmulBackend::kTiles);
  }

  void Squares() {
    for (const int64_t size : {256, 512, 1024, 2048, 4096}) {
      BothBackends("matmul/square/" + std::to_string(size), {.m = size, .n = size, .k = size});
    }
    constexpr int64_t kRows = 4096;
    for (const auto& [in, out] : {std::pair{512, 512}, {512, 2048}, {2048, 512}, {2048, 2048}}) {
      const std::string name = absl::StrCat("matmul/step/", in, "x", out);
      for (const auto type : {NumberType::kF32, NumberType::kBF16}) {
        const std::string of = name + (type == NumberType::kF32 ? "/f32" : "/bf16");
        MatmulShape forward = {.m = kRows, .n = out, .k = in, .trans_b = true};
        MatmulShape dx = {.m = kRows, .n = in, .k = out};
        MatmulShape dw = {.m = out, .n = in, .k = kRows, .trans_a = true, .accumulate = true};
        forward.type = dx.type = dw.type = forward.out_type = dx.out_type = type;
        for (const auto& [way, shape] :
             {std::pair{"/forward", forward}, {"/dx", dx}, {"/dw", dw}}) {
          BothBackends(of + way, shape);
          if (type == NumberType::kBF16) Tiles(of + way + "/tiles", shape);
        }
      }
    }
  }

  void Attention(const Model& model) {
    for (const int64_t kv_heads : {model.kv_heads, model.heads}) {
      Model m = model;
      m.kv_heads = kv_heads;
      const std::string name = "attention/" + m.name + "/kv" + std::to_string(kv_heads);
      AttentionOf<float>(m, name);
      AttentionOf<BFloat16>(m, name + "/bf16");
    }
    Decode(model);
  }

  template <typename T>
  void AttentionOf(const Model& m, const std::string& name) {
    if (!Wanted(name)) return;
    const AttentionShape shape = {m.rows / m.sequence, m.sequence, m.heads, m.kv_heads,
                                  m.head_size()};
    Buffers buffers;
    const auto get = [&](int64_t count, float value) {
      float* floats = buffers.Get(count, value);
      auto* numbers = reinterpret_cast<T*>(buffers.Get(count));
      for (int64_t i = 0; i < count; ++i) numbers[i] = FromFloat<T>(floats[i]);
      return numbers;
    };
    const T* qkv = get(m.rows * m.qkv(), 0.5F);
    T* out = get(m.rows * m.hidden, 0.01F);
    float* lse = buffers.Get(m.rows * m.heads);
    T* dqkv = get(m.rows * m.qkv(), 0.01F);
    void* workspace =
        buffers.Workspace(std::max(AttentionForwardWorkspaceBytes(shape, pool_.threads()),
                                   AttentionBackwardWorkspaceBytes<T>(shape, pool_.threads())));
    // Two products over the causal half; five in the backward.
    const double product = 1.0 * m.rows * (m.sequence + 1) * m.hidden;
    const double bytes = static_cast<double>(sizeof(T)) * m.rows * (m.qkv() + m.hidden);
    Measure(name + "/forward", 2 * product, bytes,
            [&] { AttentionForward(context_, shape, qkv, nullptr, out, lse, workspace); });
    Measure(name + "/backward", 5 * product, 2 * bytes, [&] {
      AttentionBackward(context_, shape, out, qkv, out, lse, nullptr, dqkv, workspace);
    });
    // The same rows as documents, whose products are so much smaller.
    constexpr int64_t kDocument = 64;
    std::vector<int32_t> positions(m.rows);
    for (int64_t i = 0; i < m.rows; ++i) {
      positions[i] = static_cast<int32_t>(i % m.sequence % kDocument);
    }
    const double inside = 1.0 * m.rows * (kDocument + 1) * m.hidden;
    Measure(name + "/documents/forward", 2 * inside, bytes,
            [&] { AttentionForward(context_, shape, qkv, positions.data(), out, lse, workspace); });
    Measure(name + "/documents/backward", 5 * inside, 2 * bytes, [&] {
      AttentionBackward(context_, shape, out, qkv, out, lse, positions.data(), dqkv, workspace);
    });
  }

  void Decode(const Model& m) {
    const std::string name = "attention/" + m.name + "/decode_1_row";
    if (!Wanted(name)) return;
    const DecodeShape shape = {1,       1,          m.sequence,   m.sequence - 1,
                               m.heads, m.kv_heads, m.head_size()};
    Buffers buffers;
    const int64_t cache = m.sequence * m.kv_heads * m.head_size();
    float* qkv = buffers.Get(m.qkv());
    float *k = buffers.Get(cache), *v = buffers.Get(cache), *out = buffers.Get(m.hidden);
    void* workspace = buffers.Workspace(DecodeAttentionWorkspaceBytes(shape, pool_.threads()));
    Measure(name, 4.0 * m.sequence * m.hidden, 8.0 * cache, [&] {
      AppendToCache(context_, shape, qkv, k, v);
      DecodeAttention(context_, shape, qkv, k, v, out, workspace);
    });
  }

  void Rows(const Model& m) {
    Norms(m);
    const std::string end = "/" + m.name;
    if (Wanted("rope" + end)) {
      Buffers buffers;
      float* qkv = buffers.Get(m.rows * m.qkv());
      float* table = buffers.Get(m.sequence * m.head_size());
      BuildRopeTable(0, m.sequence, m.head_size(), 10000, table);
      const RopeShape shape = {m.rows, m.sequence, m.heads, m.kv_heads, m.head_size(), 0};
      const double turned = 1.0 * m.rows * (m.heads + m.kv_heads) * m.head_size();
      Measure("rope" + end, 3 * turned, 8 * turned,
              [&] { RopeApply(context_, shape, table, nullptr, false, qkv); });
    }
    if (Wanted("swiglu" + end)) {
      Buffers buffers;
      float* gate_up = buffers.Get(m.rows * 2 * m.ffn, 1.0f);
      float* h = buffers.Get(m.rows * m.ffn);
      float* dgate_up = buffers.Get(m.rows * 2 * m.ffn);
      const double count = 1.0 * m.rows * m.ffn;
      Measure("swiglu" + end + "/forward", 20 * count, 12 * count,
              [&] { GatedForward(context_, m.rows, m.ffn, Function::kSilu, gate_up, h); });
      Measure("swiglu" + end + "/backward", 28 * count, 20 * count, [&] {
        GatedBackward(context_, m.rows, m.ffn, Function::kSilu, h, gate_up, dgate_up);
      });
    }
    if (Wanted("embedding" + end)) {
      Buffers buffers;
      std::vector<int32_t> tokens(m.rows);
      for (int64_t i = 0; i < m.rows; ++i) tokens[i] = i * 7919 % m.vocab;
      float* table = buffers.Get(m.vocab * m.hidden);
      float* y = buffers.Get(m.rows * m.hidden);
      const EmbeddingShape shape{m.rows, m.hidden, 0, m.vocab};
      const double count = 1.0 * m.rows * m.hidden;
      Measure("embedding" + end + "/forward", 0, 8 * count,
              [&] { EmbeddingForward(context_, shape, tokens.data(), table, y); });
      Measure("embedding" + end + "/backward", count, 12 * count,
              [&] { EmbeddingBackward(context_, shape, tokens.data(), y, table); });
    }
  }

  void Norms(const Model& m) {
    const std::string name = "rmsnorm/" + m.name;
    if (!Wanted(name)) return;
    Buffers buffers;
    float* x = buffers.Get(m.rows * m.hidden);
    float* branch = buffers.Get(m.rows * m.hidden);
    float* sum = buffers.Get(m.rows * m.hidden);
    float* y = buffers.Get(m.rows * m.hidden);
    float* w = buffers.Get(m.hidden);
    float* dw = buffers.Get(m.hidden);
    float* rstd = buffers.Get(m.rows);
    void* workspace = buffers.Workspace(RmsNormBackwardWorkspaceBytes(m.rows, m.hidden));
    const double count = 1.0 * m.rows * m.hidden;
    Measure(name + "/forward", 4 * count, 8 * count, [&] {
      RmsNormForward(context_, RmsNormShape{m.rows, m.hidden}, 1e-5f, x, w, y, rstd);
    });
    Measure(name + "/add_forward", 5 * count, 16 * count, [&] {
      AddRmsNormForward(context_, RmsNormShape{m.rows, m.hidden}, 1e-5f, x, branch, w, sum, y,
                        rstd);
    });
    Measure(name + "/backward", 9 * count, 12 * count, [&] {
      RmsNormBackward(context_, RmsNormShape{m.rows, m.hidden}, branch, x, w, rstd, false, y, dw,
                      workspace);
    });
  }

  void CrossEntropies(const Model& m) {
    const std::string name = "cross_entropy/" + m.name;
    if (!Wanted(name)) return;
    const int64_t rows = std::min<int64_t>(m.rows, 512);
    Buffers buffers;
    float* logits = buffers.Get(rows * m.vocab, 1.0f);
    std::vector<int32_t> targets(rows, 3);
    void* workspace = buffers.Workspace(CrossEntropyWorkspaceBytes(rows));
    double loss = 0;
    const double count = 1.0 * rows * m.vocab;
    Measure(name + "/forward_backward", 20 * count, 8 * count, [&] {
      CrossEntropyForwardBackward(context_, LossShape{rows, m.vocab}, 1.0f, targets.data(), logits,
                                  &loss, workspace);
    });
    Measure(name + "/forward", 18 * count, 4 * count, [&] {
      CrossEntropyForward(context_, LossShape{rows, m.vocab}, targets.data(), logits, &loss,
                          workspace);
    });
  }

  void Flat() {
    if (!Wanted("flat")) return;
    constexpr int64_t kCount = int64_t{16} << 20;
    constexpr double kBytes = 4.0 * kCount;
    Buffers buffers;
    float* a = buffers.Get(kCount);
    float* b = buffers.Get(kCount);
    float* m = buffers.Get(kCount);
    float* v = buffers.Get(kCount);
    void* workspace = buffers.Workspace(SumSquaresWorkspaceBytes(kCount));
    Measure("flat/add", kCount, 3 * kBytes, [&] { Add(context_, kCount, a, b); });
    Measure("flat/copy", 0, 2 * kBytes, [&] { Copy(context_, kCount, a, b); });
    Measure("flat/zero", 0, kBytes, [&] { Zero(context_, kCount, b); });
    Measure("flat/scale", kCount, 2 * kBytes, [&] { Scale(context_, kCount, 1.0f, b); });
    Measure("flat/sum_squares", 2.0 * kCount, kBytes,
            [&] { SumSquares(context_, kCount, a, workspace); });
    AdamWParams params = {.learning_rate = 1e-3, .weight_decay = 0.1};
    Measure("flat/adamw", 15.0 * kCount, 7 * kBytes, [&] {
      AdamW(context_, kCount, params, a, b, m, v, b, m, v);
      ++params.step;
    });
    for (const UpdateNumbers& of : kUpdates) MeasureMixedAdamW(of, kCount);
    Measure("flat/init_normal", 0, kBytes / 16,
            [&] { InitNormal(context_, 1, 0.02f, 0, kCount / 16, a); });
  }

  // Numbers become others; bytes are those read and written.
  void Conversions() {
    if (!Wanted("convert")) return;
    constexpr int64_t kRows = 256, kColumns = 4096, kCount = kRows * kColumns;
    static_assert(kCount % kNf4Unit == 0);
    Buffers buffers;
    float* f32 = buffers.Get(kCount);
    auto* bf16 = reinterpret_cast<BFloat16*>(buffers.Get(kCount));
    auto* f16 = reinterpret_cast<Float16*>(buffers.Get(kCount));
    auto* codes = reinterpret_cast<int8_t*>(buffers.Get(kCount));
    std::vector<std::byte> units(kCount / kNf4Unit * kNf4UnitBytes);
    for (int64_t i = 0; i < kCount / kNf4Unit; ++i) {
      QuantiseNf4Unit(f32 + i * kNf4Unit, kNf4Unit, 0.01f, units.data() + i * kNf4UnitBytes);
    }
    constexpr double kSix = 6.0 * kCount;
    Measure("convert/f32_bf16", 0, kSix, [&] { Convert(context_, kCount, f32, bf16); });
    Measure("convert/bf16_f32", 0, kSix, [&] { Convert(context_, kCount, bf16, f32); });
    Measure("convert/f32_f16", 0, kSix, [&] { Convert(context_, kCount, f32, f16); });
    Measure("convert/f16_f32", 0, kSix, [&] { Convert(context_, kCount, f16, f32); });
    Measure("convert/int8_bf16", 0, 3.0 * kCount,
            [&] { DequantiseInt8(context_, codes, f32, kRows, kColumns, bf16); });
    Measure("convert/nf4_bf16", 0, 2.5 * kCount,
            [&] { DequantiseNf4(context_, units.data(), kCount, bf16); });
  }

  // What the host's optimizer does with each kind of numbers; bytes are those read and written.
  void MeasureMixedAdamW(const UpdateNumbers& of, int64_t count) {
    Buffers buffers;
    NumbersOfUpdate numbers;
    const auto bytes_of = [&](NumberType type) {
      return count * (type == NumberType::kF32 ? 4 : 2);
    };
    const auto take = [&](int64_t bytes) {
      return reinterpret_cast<std::byte*>(buffers.Get(bytes / 4));
    };
    numbers.gradient_type = of.weights;
    numbers.gradient = take(bytes_of(of.weights));
    numbers.weights = {of.weights, of.master, take(bytes_of(of.weights))};
    double bytes = 2.0 * static_cast<double>(bytes_of(of.weights));
    if (of.master == MasterFormat::kRemainder) bytes += static_cast<double>(count * 2);
    if (of.master != MasterFormat::kNone) {
      const int64_t master = count * (of.master == MasterFormat::kF32 ? 4 : 2);
      numbers.weights.master = take(master);
      bytes += 2.0 * static_cast<double>(master);
    } else {
      bytes += static_cast<double>(bytes_of(of.weights));
    }
    numbers.next_weights = numbers.weights;
    for (int m = 0; m < kMostMoments; ++m) {
      const int64_t moment = MomentBytes(of.moments[m], count);
      numbers.moments[m] = {of.moments[m], take(moment), count};
      bytes += 2.0 * static_cast<double>(moment);
    }
    numbers.next_moments = numbers.moments;
    AdamWParams params = {.learning_rate = 1e-3, .weight_decay = 0.1};
    Measure(absl::StrCat("flat/mixed_adamw/", of.name), 15.0 * static_cast<double>(count), bytes,
            [&] {
              MixedAdamW(context_, 0, count, params, numbers);
              ++params.step;
            });
  }
};

int Main(int argc, char** argv) {
  const std::optional<BenchOptions> options = ParseBenchOptions(argc, argv);
  if (!options.has_value()) {
    std::fprintf(stderr,
                 "usage: kernels_bench [--benchmark_filter REGEX] [--threads N] [--seconds S] "
                 "[--clock wall|cpu] [--json FILE]\n");
    return 2;
  }
  if (const absl::Status cpu = CheckCpu(); !cpu.ok()) {
    std::fprintf(stderr, "kernels_bench: %s\n", cpu.ToString().c_str());
    return 1;
  }
  Bench bench(*options);
  bench.Run();
  if (!options->json.empty()) bench.WriteJson();
  return 0;
}

}  // namespace
}  // namespace strata::kernels

int main(int argc, char** argv) { return strata::kernels::Main(argc, argv); }
