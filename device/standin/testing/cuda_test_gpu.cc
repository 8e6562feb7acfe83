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

void CudaTest::InEachOrderOnRanks(int size,
                                  const std::function<void(int rank, cudaStream_t)>& body) {
  int devices = 0;
  STRATA_EXPECT_CUDA(cudaGetDeviceCount(&devices));
  if (devices < size) GTEST_SKIP() << size << " ranks need as many GPUs, there are " << devices;
  RunRanks(size, body);
}

}  // namespace strata::standin
