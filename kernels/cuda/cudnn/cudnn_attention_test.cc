// cuDNN's attention against the reference in f64, and against our kernels where that would take
// long: on a GPU with cuDNN, else skipped.
#include "kernels/cuda/cudnn/cudnn_attention.h"

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/attention_testing.h"

namespace strata::kernels::cuda {
namespace {

using ::testing::HasSubstr;

// Heads of every kind of size, groups, sequences inside a tile, past it, of odd lengths.
const AttentionShape kLibraryShapes[] = {
    {.batch = 1, .sequence = 64, .heads = 1, .kv_heads = 1, .head_size = 64},
    {.batch = 3, .sequence = 130, .heads = 2, .kv_heads = 2, .head_size = 64},
    {.batch = 2, .sequence = 67, .heads = 6, .kv_heads = 1, .head_size = 128},
    {.batch = 1, .sequence = 257, .heads = 12, .kv_heads = 2, .head_size = 128},
    {.batch = 2, .sequence = 33, .heads = 3, .kv_heads = 3, .head_size = 80},
    {.batch = 1, .sequence = 200, .heads = 4, .kv_heads = 2, .head_size = 32},
    {.batch = 4, .sequence = 128, .heads = 2, .kv_heads = 1, .head_size = 64},
    {.batch = 1,
     .sequence = 96,
     .heads = 2,
     .kv_heads = 1,
     .head_size = 64,
     .scores = {.scale = 0.3F}},
};

template <typename T>
class CudnnAttentionTest : public TypedCudaTest<T> {
 protected:
  static constexpr NumberType kType =
      std::is_same_v<T, BFloat16> ? NumberType::kBF16 : NumberType::kF16;

  // What a shape's attention works on.
  struct Operands {
    Operands(const AttentionShape& shape, const std::vector<T>& host_qkv,
             const std::vector<T>& host_dout, cudaStream_t stream)
        : qkv(host_qkv, stream),
          dout(host_dout, stream),
          out(host_dout.size(), stream),
          dqkv(host_qkv.size(), stream),
          lse(shape.batch * shape.heads * shape.sequence, stream),
          workspace(AttentionBackwardWorkspaceBytes(shape) / sizeof(float), stream) {}
    DeviceArray<T> qkv, dout, out, dqkv;
    DeviceArray<float> lse, workspace;
  };

  static std::vector<T> Qkv(const AttentionShape& shape) {
    return testing::RandomOf<T>(shape.batch * shape.sequence * QkvColumns(shape), 1);
  }
  static std::vector<T> Dout(const AttentionShape& shape) {
    return testing::RandomOf<T>(shape.batch * shape.sequence * shape.heads * shape.head_size, 2);
  }

  static void Open(int64_t most_score_bytes, std::unique_ptr<AttentionLibrary>& library,
                   int64_t most_workspace_bytes = kCudnnWorkspaceBytes) {
    auto opened = OpenCudnnAttention(most_score_bytes, most_workspace_bytes);
    if (absl::IsNotFound(opened.status())) GTEST_SKIP() << opened.status();
    ASSERT_TRUE(opened.ok()) << opened.status();
    library = *std::move(opened);
  }

  // Both directions, by the library.
  void Run(AttentionLibrary& library, const AttentionShape& shape, Operands& operands) {
    const auto forward = library.Forward(this->stream(), shape, kType);
    ASSERT_TRUE(forward.ok()) << forward.status();
    const auto backward = library.Backward(this->stream(), shape, kType);
    ASSERT_TRUE(backward.ok()) << backward.status();
    STRATA_EXPECT_OK(
        (*forward)->Run(operands.qkv.data(), operands.out.data(), operands.lse.data()));
    STRATA_EXPECT_OK((*backward)->Run(operands.dout.data(), operands.qkv.data(),
                                      operands.out.data(), operands.lse.data(),
                                      operands.dqkv.data()));
  }

  void Check(AttentionLibrary& library, const AttentionShape& shape) {
    SCOPED_TRACE(NameOf(shape));
    const auto qkv = Qkv(shape), dout = Dout(shape);
    const auto expected = reference::AttentionForward(shape, testing::WidenOf(qkv), {});
    const Doubles gradient =
        reference::AttentionBackward(shape, testing::WidenOf(qkv), testing::WidenOf(dout), {});
    Operands operands(shape, qkv, dout, this->stream());
    Run(library, shape, operands);
    testing::ExpectClose(testing::Back(operands.out.ToHost()), expected.out, kOfOut<T>);
    testing::ExpectClose(operands.lse.ToHost(), expected.lse, kTolerance);
    testing::ExpectClose(testing::Back(operands.dqkv.ToHost()), gradient, kOfGradient<T>);
  }

  void CheckAll(int64_t most_score_bytes) {
    std::unique_ptr<AttentionLibrary> library;
    Open(most_score_bytes, library);
    if (library == nullptr) return;
    this->InEachOrder([&] {
      for (const AttentionShape& shape : kLibraryShapes) Check(*library, shape);
    });
  }
};
using HalfTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(CudnnAttentionTest, HalfTypes);

TYPED_TEST(CudnnAttentionTest, EqualsTheReference) { this->CheckAll(kCudnnScoreBytes); }

// Of a sequence, and of a key head where sequences are longer.
TYPED_TEST(CudnnAttentionTest, InPiecesEqualsTheReference) {
  const AttentionShape shape = {
      .batch = 4, .sequence = 200, .heads = 6, .kv_heads = 2, .head_size = 64};
  for (const int64_t heads : {3, 6, 12}) {
    std::unique_ptr<AttentionLibrary> library;
    this->Open(heads * 256 * 256 * 2, library);
    if (library == nullptr) return;
    this->InEachOrder([&] { this->Check(*library, shape); });
  }
}

// Scores of a sequence are 0.75 MiB.
TYPED_TEST(CudnnAttentionTest, WhereAllIsTooMuchForTheWorkspace_InPiecesEqualsTheReference) {
  const AttentionShape shape = {
      .batch = 4, .sequence = 200, .heads = 6, .kv_heads = 2, .head_size = 64};
  std::unique_ptr<AttentionLibrary> library, without;
  this->Open(kCudnnScoreBytes, library, int64_t{2} << 20);
  this->Open(kCudnnScoreBytes, without, 1);
  if (library == nullptr || without == nullptr) return;
  this->InEachOrder([&] {
    this->Check(*library, shape);
    EXPECT_EQ(without->Backward(this->stream(), shape, this->kType).status().code(),
              absl::StatusCode::kOutOfRange);
  });
}

// Of a length that takes many blocks, captured in a graph and launched over and over.
TYPED_TEST(CudnnAttentionTest, GivesTheSameBitsInEveryRunAndEqualsOurs) {
  using T = TypeParam;
  std::unique_ptr<AttentionLibrary> library;
  this->Open(kCudnnScoreBytes, library);
  if (library == nullptr) return;
  const AttentionShape shapes[] = {
      {.batch = 4, .sequence = 1024, .heads = 12, .kv_heads = 12, .head_size = 64},
      {.batch = 1, .sequence = 2048, .heads = 12, .kv_heads = 2, .head_size = 128}};
  for (const AttentionShape& shape : shapes) {
    SCOPED_TRACE(NameOf(shape));
    const auto qkv = this->Qkv(shape), dout = this->Dout(shape);
    this->InEachOrder([&] {
      const cudaStream_t stream = this->stream();
      typename CudnnAttentionTest<T>::Operands operands(shape, qkv, dout, stream);
      this->Run(*library, shape, operands);
      const Floats out = testing::Back(operands.out.ToHost());
      const Floats dqkv = testing::Back(operands.dqkv.ToHost());

      cudaGraph_t graph = nullptr;
      cudaGraphExec_t launched = nullptr;
      STRATA_EXPECT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      this->Run(*library, shape, operands);
      STRATA_EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
      STRATA_EXPECT_CUDA(cudaGraphInstantiate(&launched, graph, 0));
      for (int i = 0; i < 20; ++i) STRATA_EXPECT_CUDA(cudaGraphLaunch(launched, stream));
      EXPECT_TRUE(testing::SameBits(testing::Back(operands.out.ToHost()), out));
      EXPECT_TRUE(testing::SameBits(testing::Back(operands.dqkv.ToHost()), dqkv));
      STRATA_EXPECT_CUDA(cudaGraphExecDestroy(launched));
      STRATA_EXPECT_CUDA(cudaGraphDestroy(graph));

      STRATA_EXPECT_OK(AttentionForward<T>(stream, shape, operands.qkv.data(), nullptr,
                                           operands.out.data(), operands.lse.data()));
      STRATA_EXPECT_OK(AttentionBackward<T>(
          stream, shape, operands.dout.data(), operands.qkv.data(), operands.out.data(),
          operands.lse.data(), nullptr, operands.dqkv.data(), operands.workspace.data()));
      const Floats our_out = testing::Back(operands.out.ToHost());
      const Floats our_dqkv = testing::Back(operands.dqkv.ToHost());
      testing::ExpectClose(out, Doubles(our_out.begin(), our_out.end()), 2 * kOfOut<T>);
      testing::ExpectClose(dqkv, Doubles(our_dqkv.begin(), our_dqkv.end()), 2 * kOfGradient<T>);
    });
  }
}

// Which not every version has kernels for.
TYPED_TEST(CudnnAttentionTest, OfWideHeadsEqualsTheReferenceWhereThereIsAPlan) {
  std::unique_ptr<AttentionLibrary> library;
  this->Open(kCudnnScoreBytes, library);
  if (library == nullptr) return;
  this->InEachOrder([&] {
    for (const int64_t head_size : {192, 256}) {
      const AttentionShape shape = {
          .batch = 2, .sequence = 100, .heads = 4, .kv_heads = 2, .head_size = head_size};
      const bool planned = library->Forward(this->stream(), shape, this->kType).ok() &&
                           library->Backward(this->stream(), shape, this->kType).ok();
      if (planned) this->Check(*library, shape);
    }
  });
}

TYPED_TEST(CudnnAttentionTest, WhatItHasNoKernelsForIsAnError) {
  std::unique_ptr<AttentionLibrary> library;
  this->Open(kCudnnScoreBytes, library);
  if (library == nullptr) return;
  const AttentionShape shape = {
      .batch = 1, .sequence = 64, .heads = 1, .kv_heads = 1, .head_size = 64};
  AttentionShape odd = shape, windowed = shape, capped = shape;
  odd.head_size = 60;
  windowed.scores.window = 8;
  capped.scores.softcap = 1;
  this->InEachOrder([&] {
    for (const AttentionShape& other : {odd, windowed, capped}) {
      EXPECT_EQ(library->Forward(this->stream(), other, this->kType).status().code(),
                absl::StatusCode::kUnimplemented);
      EXPECT_EQ(library->Backward(this->stream(), other, this->kType).status().code(),
                absl::StatusCode::kUnimplemented);
    }
    EXPECT_FALSE(library->Forward(this->stream(), shape, NumberType::kF32).ok());
    EXPECT_THAT(library->Summary(), HasSubstr("attention by Strata's kernels (cuDNN: "));
    EXPECT_TRUE(library->Forward(this->stream(), shape, this->kType).ok());
    EXPECT_THAT(library->Summary(), HasSubstr("attention by cuDNN 9."));
    EXPECT_THAT(library->Summary(), HasSubstr("in part by Strata's kernels (cuDNN: "));
  });
}

}  // namespace
}  // namespace strata::kernels::cuda
