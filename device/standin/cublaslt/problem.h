// A product as cuBLASLt's descriptors state it, which of them the library computes, and the
// algorithms that it offers.
#ifndef STRATA_DEVICE_STANDIN_CUBLASLT_PROBLEM_H_
#define STRATA_DEVICE_STANDIN_CUBLASLT_PROBLEM_H_

#include <cublasLt.h>

#include <cstdint>
#include <vector>

namespace strata::standin::cublaslt {

// By so many fast algorithms read and write matrices, and all of them a bias: its pointer has no
// part in their choice.
constexpr uint32_t kPacketBytes = 16;

// Bytes of an element; 0: no type that the stand-in computes with.
int64_t BytesOf(cudaDataType type);

struct Matrix {
  cudaDataType type;
  bool by_rows;
  int64_t rows, columns;
  int64_t leading;  // elements from one row (by rows) or column to the next
  int64_t batch, batch_stride;

  int64_t lines() const { return by_rows ? rows : columns; }  // runs of elements side by side
  int64_t length() const { return by_rows ? columns : rows; }
  int64_t OffsetOf(int64_t row, int64_t column) const {
    return by_rows ? row * leading + column : column * leading + row;
  }
};

// d = alpha op(a) op(b) + beta c, and a bias to each column.
struct Problem {
  int64_t m, n, k;
  Matrix a, b, c, d;
  bool transposed_a, transposed_b;
  cublasComputeType_t compute;
  bool scalars_on_device;  // alpha and beta
  bool has_bias;
  const void* bias;  // [m], of d's type
  int64_t bias_stride;
};

// INVALID_VALUE for what is contradictory, NOT_SUPPORTED for what the library, or the stand-in,
// does not compute.
cublasStatus_t ReadProblem(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                           cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                           cublasLtMatrixLayout_t d, Problem& problem);

struct Preference {
  uint64_t most_workspace_bytes = 0;
  uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  uint32_t alignment[4] = {256, 256, 256, 256};  // of a, b, c, d
};
cublasStatus_t ReadPreference(cublasLtMatmulPreference_t from, Preference& preference);

// What the caller keeps in cublasLtMatmulAlgo_t.
struct Algorithm {
  static constexpr uint32_t kMagic = 0x5354414c;

  uint32_t magic = kMagic;
  uint32_t alignment = 0;  // that it needs of pointers
  uint32_t splits = 1;     // of k
  uint32_t reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
  int32_t type = 0, out_type = 0, compute = 0;  // that it was made for
  uint32_t bias_apart = 0;                      // 1: it adds a bias to d's rounded elements

  uint64_t WorkspaceBytes(const Problem& problem) const;
  bool Suits(const Problem& problem) const;
};

// Best first; empty: none can do it.
std::vector<Algorithm> Choose(const Problem& problem, const Preference& preference);

}  // namespace strata::standin::cublaslt

#endif  // STRATA_DEVICE_STANDIN_CUBLASLT_PROBLEM_H_
