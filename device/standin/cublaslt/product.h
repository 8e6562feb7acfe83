// A product as an operation on the stand-in's device: what it reads and writes, and its values.
#ifndef STRATA_DEVICE_STANDIN_CUBLASLT_PRODUCT_H_
#define STRATA_DEVICE_STANDIN_CUBLASLT_PRODUCT_H_

#include <cstdint>

#include "device/standin/cublaslt/problem.h"
#include "device/standin/machine.h"

namespace strata::standin::cublaslt {

struct Product {
  Problem problem;
  Algorithm algorithm;
  const void *a, *b, *c;
  void *d, *workspace;
  uint64_t workspace_bytes;
  float alpha, beta;                             // as the call found them…
  const void *alpha_on_device, *beta_on_device;  // … or where the operation finds them
};

// Tells the checker of every operand, element by element where lines lie apart; the workspace is
// written from begin to end, whatever the algorithm needs of it, and garbage afterwards. Findings:
// all that the checker sees; operands that are not in device memory, less aligned than the
// algorithm needs, or written over by the result.
void RunProduct(const Product& product, Machine& machine, OperationId id);

}  // namespace strata::standin::cublaslt

#endif  // STRATA_DEVICE_STANDIN_CUBLASLT_PRODUCT_H_
