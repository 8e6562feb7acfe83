// Managed memory: pages are where prefetches bring them, and what is touched elsewhere is found.
#include <string>
#include <vector>

#include "device/standin/standin.h"
#include "device/standin/testing/cuda_test.h"
#include "device/standin/testing/example_kernels.h"
#include "gmock/gmock.h"

namespace strata::standin {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kPageFloats = kManagedPage / sizeof(float);
constexpr int kFew = 64;

auto Is(FindingKind kind, const std::string& text) {
  return AllOf(Field(&Finding::kind, kind), Field(&Finding::text, HasSubstr(text)));
}

// Three pages, of which the first begins with the array.
class Array {
 public:
  Array() {
    STRATA_EXPECT_CUDA(cudaMallocManaged(&memory_, 4 * kManagedPage));
    const auto address = reinterpret_cast<uintptr_t>(memory_);
    data_ = reinterpret_cast<float*>((address + kManagedPage - 1) / kManagedPage * kManagedPage);
  }
  ~Array() { cudaFree(memory_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  float* page(int index) { return data_ + index * kPageFloats; }

 private:
  void* memory_ = nullptr;
  float* data_ = nullptr;
};

constexpr cudaMemLocation kHost = {cudaMemLocationTypeHost, 0},
                          kDevice = {cudaMemLocationTypeDevice, 0};

void Prefetch(const float* data, size_t bytes, cudaMemLocation to, cudaStream_t stream) {
  STRATA_EXPECT_CUDA(cudaMemPrefetchAsync(data, bytes, to, 0, stream));
}

class ManagedTest : public CudaTest {
 protected:
  void Start(const Options& options) {
    Reset(options);
    for (cudaStream_t* stream : {&a_, &b_}) {
      STRATA_EXPECT_CUDA(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking));
    }
  }
  // Runs a mistake in orders in which it may stay without effect.
  template <typename Body>
  std::vector<std::vector<Finding>> FindInEachOrder(Body&& body) {
    std::vector<std::vector<Finding>> found;
    for (const StreamOrder order :
         {StreamOrder::kProgram, StreamOrder::kLatest, StreamOrder::kRandom}) {
      Start({.stream_order = order});
      body();
      STRATA_EXPECT_CUDA(cudaDeviceSynchronize());
      found.push_back(TakeFindings());
    }
    return found;
  }

  cudaStream_t a_ = nullptr, b_ = nullptr;
};

TEST_F(ManagedTest, PagesComeAndGoByPrefetchAtOneAddress) {
  InEachOrder([&] {
    Array x, y;
    for (int i = 0; i < kFew; ++i) x.page(1)[i] = static_cast<float>(i);
    // Part of a page moves all of it.
    Prefetch(x.page(1), 4, kDevice, stream());
    Prefetch(y.page(0), 2 * kManagedPage, kDevice, stream());
    Scale(stream(), kFew, x.page(1), y.page(1));
    Prefetch(y.page(0), 3 * kManagedPage, kHost, stream());
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(stream()));
    EXPECT_EQ(y.page(1)[kFew - 1], 2 * (kFew - 1) + 1);
    y.page(0)[0] = 1;  // never used by the device, and back
    const PageMoves moves = GetCounters().pages;
    EXPECT_EQ(moves.to_device, 3);
    EXPECT_EQ(moves.to_host, 2);
    EXPECT_EQ(moves.faults, 0);
  });
}

TEST_F(ManagedTest, APrefetchThatIsLeftOutIsFoundWithKernelAndAddress) {
  const auto mistake = [&] {
    Array x, y;
    Prefetch(y.page(0), kManagedPage, kDevice, a_);
    Scale(a_, kFew, x.page(2), y.page(0));
    Prefetch(y.page(0), kManagedPage, kHost, a_);
    STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
    EXPECT_EQ(y.page(0)[0], 1);  // what is computed is right all the same
    EXPECT_EQ(GetCounters().pages.faults, 1);
  };
  for (const auto& found : FindInEachOrder(mistake)) {
    EXPECT_THAT(found,
                ElementsAre(Is(FindingKind::kPageFault, "is on the host, touched by thread")));
    EXPECT_THAT(found.front().text, AllOf(HasSubstr("of managed #1"), HasSubstr("Scale")));
  }
  Start({.allow_page_faults = true});
  mistake();
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(ManagedTest, AnEventLeftOutBehindAPrefetchIsARaceInEachOrder) {
  for (const bool before : {true, false}) {
    for (const auto& found : FindInEachOrder([&] {
           Array x, y;
           cudaEvent_t event = nullptr;
           STRATA_EXPECT_CUDA(cudaEventCreate(&event));
           Prefetch(y.page(0), kManagedPage, kDevice, a_);
           Prefetch(x.page(0), kManagedPage, kDevice, before ? b_ : a_);
           Scale(a_, kFew, x.page(0), y.page(0));
           if (before) {
             STRATA_EXPECT_CUDA(cudaEventRecord(event, a_));
             STRATA_EXPECT_CUDA(cudaStreamWaitEvent(b_, event));
           }
           Prefetch(x.page(0), kManagedPage, kHost, b_);
           Prefetch(y.page(0), kManagedPage, kHost, a_);
         })) {
      SCOPED_TRACE(before ? "before the kernel" : "behind it");
      EXPECT_THAT(found, Contains(Is(FindingKind::kRace, "residency of managed #1, page+1")));
    }
  }
}

TEST_F(ManagedTest, TheHostsAccessToAPageOnTheDeviceIsFound) {
  Start({});
  Array x, y;
  Prefetch(x.page(0), 2 * kManagedPage, kDevice, a_);
  Prefetch(y.page(0), kManagedPage, kDevice, a_);
  Scale(a_, kFew, x.page(0), y.page(0));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_EQ(y.page(0)[1], 1);
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kPageFault, "touched by the host")));
  EXPECT_EQ(GetCounters().pages.faults, 1);
  EXPECT_EQ(y.page(0)[2], 1);  // it is there now
  EXPECT_THAT(TakeFindings(), IsEmpty());
  x.page(2)[0] = 1;  // was not moved
  EXPECT_THAT(TakeFindings(), IsEmpty());
}

TEST_F(ManagedTest, CopiesReadPagesWhereTheyAreAndFillsAreKernels) {
  Start({});
  Array x;
  float value = 0;
  x.page(0)[0] = 3;
  Prefetch(x.page(0), kManagedPage, kDevice, a_);
  STRATA_EXPECT_CUDA(cudaMemcpyAsync(&value, x.page(0), 4, cudaMemcpyDefault, a_));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_EQ(value, 3);
  EXPECT_THAT(TakeFindings(), IsEmpty());
  STRATA_EXPECT_CUDA(cudaMemsetAsync(x.page(1), 0, 4, a_));
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kPageFault, "by a fill")));
}

TEST_F(ManagedTest, PagesTakeRoomOnTheDeviceAsLongAsTheyAreThere) {
  Start({.device_bytes = 2 * kManagedPage});
  Array x;
  size_t free = 0, total = 0;
  Prefetch(x.page(0), 2 * kManagedPage, kDevice, a_);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  STRATA_EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, 0u);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, 256), cudaErrorMemoryAllocation);
  Prefetch(x.page(0), kManagedPage, kHost, a_);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  STRATA_EXPECT_CUDA(cudaMalloc(&more, 256));
  EXPECT_THAT(TakeFindings(), IsEmpty());
  Prefetch(x.page(0), 2 * kManagedPage, kDevice, a_);
  STRATA_EXPECT_CUDA(cudaStreamSynchronize(a_));
  EXPECT_THAT(TakeFindings(), ElementsAre(Is(FindingKind::kPageFault, "no room on device 0")));
}

TEST_F(ManagedTest, WhatIsNoManagedMemoryIsRefused) {
  Start({});
  Array x;
  void* plain = nullptr;
  STRATA_EXPECT_CUDA(cudaMalloc(&plain, 256));
  EXPECT_EQ(cudaMemPrefetchAsync(plain, 256, kDevice, 0, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPrefetchAsync(x.page(0), 1 << 30, kDevice, 0, a_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemPrefetchAsync(x.page(0), 4, {cudaMemLocationTypeDevice, 1}, 0, a_),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemAdvise(plain, 256, cudaMemAdviseSetPreferredLocation, kHost),
            cudaErrorInvalidValue);
  STRATA_EXPECT_CUDA(cudaMemAdvise(x.page(0), 4, cudaMemAdviseSetPreferredLocation, kHost));
  STRATA_EXPECT_CUDA(cudaStreamBeginCapture(a_, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(cudaMemPrefetchAsync(x.page(0), 4, kDevice, 0, a_), cudaErrorStreamCaptureUnsupported);

  Start({.managed_memory = false});
  int concurrent = 1;
  STRATA_EXPECT_CUDA(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, 0));
  EXPECT_EQ(concurrent, 0);
  EXPECT_EQ(cudaMallocManaged(&plain, 256), cudaErrorNotSupported);
}

}  // namespace
}  // namespace strata::standin
