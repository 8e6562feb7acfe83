// Matrix product through oneDNN: our pool cuts c into tiles by the shape alone, each tile is one
// single-threaded matmul primitive over the whole of K.
#include <omp.h>

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "kernels/cpu/matmul_implementation.h"
#include "kernels/cpu/parallel.h"
#include "kernels/isa.h"

namespace strata::kernels {
namespace {

constexpr int64_t kTileM = 256, kTileN = 512;
constexpr int64_t kSmallTileM = 128, kSmallTileN = 192;
// Of 16 bits: the library rearranges both factors for each tile, which takes longer than the
// product where tiles are small.
constexpr int64_t kSmallTileOf16Bits = 256;
constexpr int64_t kEnoughTiles = 24;

// oneDNN plans for as many threads as OpenMP would give the thread that makes a primitive.
class OneOpenMpThread {
 public:
  OneOpenMpThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneOpenMpThread() { omp_set_num_threads(before_); }
  OneOpenMpThread(const OneOpenMpThread&) = delete;
  OneOpenMpThread& operator=(const OneOpenMpThread&) = delete;

 private:
  const int before_;
};

dnnl::memory::data_type LibraryType(NumberType type) {
  using Type = dnnl::memory::data_type;
  if (type == NumberType::kF16) return Type::f16;
  return type == NumberType::kBF16 ? Type::bf16 : Type::f32;
}

int64_t BytesOf(NumberType type) { return type == NumberType::kF32 ? 4 : 2; }

// One tile size: the primitive, and per thread memory objects whose pointers are set for each run.
struct TileProduct {
  dnnl::matmul primitive;
  struct PerThread {
    dnnl::memory a, b, c, scratch;
    dnnl::stream stream;
  };
  std::vector<PerThread> threads;
};

class OneDnnMatmul final : public MatmulPlan::Implementation {
 public:
  explicit OneDnnMatmul(const MatmulShape& shape) : Implementation(shape) {
    const int64_t tiles = CeilDiv(shape.m, kTileM) * CeilDiv(shape.n, kTileN);
    const bool f32 = shape.type == NumberType::kF32;
    tile_m_ = tiles >= kEnoughTiles ? kTileM : f32 ? kSmallTileM : kSmallTileOf16Bits;
    tile_n_ = tiles >= kEnoughTiles ? kTileN : f32 ? kSmallTileN : kSmallTileOf16Bits;
  }

  // Throws dnnl::error.
  absl::Status Make(int threads) {
    const OneOpenMpThread one_thread;
    for (const bool last_row : {false, true}) {
      for (const bool last_column : {false, true}) {
        const int64_t m = last_row ? shape_.m - (Rows() - 1) * tile_m_ : tile_m_;
        const int64_t n = last_column ? shape_.n - (Columns() - 1) * tile_n_ : tile_n_;
        if ((!last_row && Rows() == 1) || (!last_column && Columns() == 1)) continue;
        const absl::Status made = MakeTile(m, n, threads, &products_[2 * last_row + last_column]);
        if (!made.ok()) return made;
      }
    }
    return absl::OkStatus();
  }

  MatmulBackend backend() const override { return MatmulBackend::kOneDnn; }

  void Run(const Context& context, const void* from_a, const void* from_b, void* to,
           void* workspace) override {
    const char *a = static_cast<const char*>(from_a), *b = static_cast<const char*>(from_b);
    char* c = static_cast<char*>(to);
    const int64_t in = BytesOf(shape_.type), out = BytesOf(shape_.out_type);
    context.pool->ParallelFor(Rows() * Columns(), [&](int64_t task, int thread) {
      const int64_t row = task % Rows(), column = task / Rows();
      TileProduct& product = products_[2 * (row == Rows() - 1) + (column == Columns() - 1)];
      TileProduct::PerThread& own = product.threads[thread];
      const int64_t m0 = row * tile_m_, n0 = column * tile_n_;
      const auto set = [](dnnl::memory& memory, const void* data) {
        STRATA_CHECK(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)) ==
                     dnnl_success);
      };
      set(own.a, a + in * (shape_.trans_a ? m0 : m0 * shape_.lda));
      set(own.b, b + in * (shape_.trans_b ? n0 * shape_.ldb : n0));
      set(own.c, c + out * (m0 * shape_.ldc + n0));
      set(own.scratch, static_cast<char*>(workspace) + thread * kOneDnnScratchBytes);
      const std::array<dnnl_exec_arg_t, 4> arguments = {{{DNNL_ARG_SRC, own.a.get()},
                                                         {DNNL_ARG_WEIGHTS, own.b.get()},
                                                         {DNNL_ARG_DST, own.c.get()},
                                                         {DNNL_ARG_SCRATCHPAD, own.scratch.get()}}};
      // The shape was accepted when the primitive was made; a failure now is a broken invariant.
      STRATA_CHECK(dnnl_primitive_execute(product.primitive.get(), own.stream.get(),
                                          static_cast<int>(arguments.size()),
                                          arguments.data()) == dnnl_success);
    });
  }

 private:
  int64_t Rows() const { return CeilDiv(shape_.m, tile_m_); }
  int64_t Columns() const { return CeilDiv(shape_.n, tile_n_); }

  absl::Status MakeTile(int64_t m, int64_t n, int threads, TileProduct* product) {
    using dnnl::memory;
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    const auto describe = [](NumberType type, int64_t rows, int64_t columns, int64_t ld,
                             bool transposed) {
      return memory::desc({rows, columns}, LibraryType(type),
                          transposed ? memory::dims{1, ld} : memory::dims{ld, 1});
    };
    const memory::desc a = describe(shape_.type, m, shape_.k, shape_.lda, shape_.trans_a);
    const memory::desc b = describe(shape_.type, shape_.k, n, shape_.ldb, shape_.trans_b);
    const memory::desc c = describe(shape_.out_type, m, n, shape_.ldc, false);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (shape_.accumulate) {
      dnnl::post_ops post_ops;
      post_ops.append_sum(1.0f);
      attributes.set_post_ops(post_ops);
    }
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes, engine);
    const memory::desc scratch = description.scratchpad_desc();
    if (static_cast<int64_t>(scratch.get_size()) > kOneDnnScratchBytes) {
      return absl::FailedPreconditionError(absl::StrCat("oneDNN wants ", scratch.get_size(),
                                                        " bytes of scratchpad per thread, more "
                                                        "than ",
                                                        kOneDnnScratchBytes));
    }
    product->primitive = dnnl::matmul(description);
    for (int thread = 0; thread < threads; ++thread) {
      product->threads.push_back({memory(a, engine, nullptr), memory(b, engine, nullptr),
                                  memory(c, engine, nullptr), memory(scratch, engine, nullptr),
                                  dnnl::stream(engine)});
    }
    return absl::OkStatus();
  }

  int64_t tile_m_, tile_n_;
  // [last row of tiles][last column of tiles]; those that do not occur are empty.
  std::array<TileProduct, 4> products_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MatmulPlan::Implementation>> MakeOneDnnMatmul(
    const MatmulShape& shape, int threads) {
  PrepareOneDnn();
  try {
    auto made = std::make_unique<OneDnnMatmul>(shape);
    const absl::Status status = made->Make(threads);
    if (!status.ok()) return status;
    return std::unique_ptr<MatmulPlan::Implementation>(std::move(made));
  } catch (const dnnl::error& error) {
    return absl::FailedPreconditionError(absl::StrCat("oneDNN cannot multiply ", shape.m, " x ",
                                                      shape.k, " x ", shape.n, ": ", error.what()));
  }
}

}  // namespace strata::kernels
