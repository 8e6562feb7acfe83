// A GoogleTest fixture for code that calls the CUDA runtime: one source, linked with the stand-in
// and with the real runtime (strata_cuda_test in bazel/defs.bzl).
//
//   class NormTest : public standin::CudaTest {};
//   TEST_F(NormTest, EqualsTheReference) {
//     InEachOrder([&] {
//       DeviceArray<float> x(host_x, stream()), y(host_x.size(), stream());
//       LaunchNorm(x.data(), y.data(), stream());
//       EXPECT_THAT(y.ToHost(), …);
//     });
//   }
#ifndef STRATA_DEVICE_STANDIN_TESTING_CUDA_TEST_H_
#define STRATA_DEVICE_STANDIN_TESTING_CUDA_TEST_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#define STRATA_EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

namespace strata::standin {

class CudaTest : public testing::Test {
 protected:
  // Without a GPU, a test with the real runtime is skipped.
  void SetUp() override;
  // On the stand-in: in several orders of threads, blocks and streams, each from a fresh runtime,
  // and each must leave no finding. On a GPU: once.
  void InEachOrder(const std::function<void()>& body);
  // Likewise, with a thread for each rank, which has the device of its number and a stream of its
  // own. On a machine with fewer GPUs: skipped.
  void InEachOrderOnRanks(int size, const std::function<void(int rank, cudaStream_t)>& body);

  // Of the run that goes on.
  cudaStream_t stream() const { return stream_; }

 private:
  void RunOnce(const std::function<void()>& body);
  static void RunRanks(int size, const std::function<void(int rank, cudaStream_t)>& body);
  cudaStream_t stream_ = nullptr;
};

inline void CudaTest::RunOnce(const std::function<void()>& body) {
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
  body();
  STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
  STRATA_EXPECT_CUDA(cudaStreamDestroy(std::exchange(stream_, nullptr)));
}

inline void CudaTest::RunRanks(int size, const std::function<void(int rank, cudaStream_t)>& body) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&body, rank] {
      cudaStream_t stream = nullptr;
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
      body(rank, stream);
      STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
      STRATA_EXPECT_CUDA(cudaStreamDestroy(stream));
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

// An array in device memory, of `count` elements that nothing was written to, or of a host's.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(size_t count, cudaStream_t stream) : count_(count), stream_(stream) {
    STRATA_EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  DeviceArray(const std::vector<T>& values, cudaStream_t stream)
      : DeviceArray(values.size(), stream) {
    STRATA_EXPECT_CUDA(
        cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  std::vector<T> ToHost() const {
    std::vector<T> values(count_);
    STRATA_EXPECT_CUDA(
        cudaMemcpyAsync(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream_));
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream_));
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t count_;
  cudaStream_t stream_;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_TESTING_CUDA_TEST_H_
