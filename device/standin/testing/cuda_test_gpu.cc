#include "device/standin/testing/cuda_test.h"

namespace strata::standin {

void CudaTest::SetUp() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    GTEST_SKIP() << "there is no GPU here: " << cudaGetErrorString(error);
  }
}

void CudaTest::InEachOrder(const std::function<void()>& body) { RunOnce(body); }

}  // namespace strata::standin
