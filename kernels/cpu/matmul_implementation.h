// What the two matrix products share.
#ifndef STRATA_KERNELS_CPU_MATMUL_IMPLEMENTATION_H_
#define STRATA_KERNELS_CPU_MATMUL_IMPLEMENTATION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/matmul.h"

namespace strata::kernels {

class MatmulPlan::Implementation {
 public:
  explicit Implementation(const MatmulShape& shape) : shape_(shape) {}
  virtual ~Implementation() = default;
  virtual void Run(const Context& context, const void* a, const void* b, void* c,
                   void* workspace) = 0;
  virtual MatmulBackend backend() const = 0;
  const MatmulShape& shape() const { return shape_; }

 protected:
  const MatmulShape shape_;  // with the leading dimensions filled in
};

// A product of the shape's types.
template <template <typename In, typename Out> typename Product>
std::unique_ptr<MatmulPlan::Implementation> MakeTyped(const MatmulShape& shape) {
  using Made = std::unique_ptr<MatmulPlan::Implementation>;
  return WithNumberOf(shape.type, [&](auto number) -> Made {
    using In = decltype(number);
    if (shape.out_type == NumberType::kF32) return std::make_unique<Product<In, float>>(shape);
    return std::make_unique<Product<In, In>>(shape);
  });
}

// Workspace of our own product.
int64_t OwnMatmulWorkspaceBytes(const MatmulShape& shape);
std::unique_ptr<MatmulPlan::Implementation> MakeOwnMatmul(const MatmulShape& shape);

// Few rows times a transposed matrix, as in decoding; needs no workspace.
bool SuitsRowsMatmul(const MatmulShape& shape);
std::unique_ptr<MatmulPlan::Implementation> MakeRowsMatmul(const MatmulShape& shape);

// Of bf16, on CPUs whose AMX works; needs kOneDnnScratchBytes per thread. At least 16 rows and
// columns.
bool SuitsTileMatmul(const MatmulShape& shape);
std::unique_ptr<MatmulPlan::Implementation> MakeTileMatmul(const MatmulShape& shape, int threads);

// oneDNN's scratchpad per thread may be at most this.
inline constexpr int64_t kOneDnnScratchBytes = int64_t{4} << 20;
absl::StatusOr<std::unique_ptr<MatmulPlan::Implementation>> MakeOneDnnMatmul(
    const MatmulShape& shape, int threads);

}  // namespace strata::kernels

#endif  // STRATA_KERNELS_CPU_MATMUL_IMPLEMENTATION_H_
