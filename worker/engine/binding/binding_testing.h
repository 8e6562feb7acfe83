// What the tests of binders share: operands with contents of their own, in two copies, for the
// bound op and for a direct call of its kernel.
#ifndef STRATA_WORKER_ENGINE_BINDING_BINDING_TESTING_H_
#define STRATA_WORKER_ENGINE_BINDING_BINDING_TESTING_H_

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "common/rng.h"
#include "device/thread_pool.h"
#include "gtest/gtest.h"
#include "program/ir/scalars.h"
#include "worker/engine/op_binding.h"

namespace strata::worker {

class FakeHost final : public HostOps {
 public:
  absl::Status LoadBatch(const BatchRows& rows) override {
    for (int64_t i = 0; i < rows.samples * rows.sequence; ++i) {
      rows.tokens[i] = token;
      rows.targets[i] = target;
      if (rows.positions != nullptr) rows.positions[i] = position;
    }
    return absl::OkStatus();
  }
  absl::Status LoadScalars(double* scalars) override {
    scalars[static_cast<int>(program::Scalar::kStep)] = 42;
    return absl::OkStatus();
  }
  absl::Status Signal(program::Purpose, const std::string&) override { return absl::OkStatus(); }

  int32_t token = 1, target = 2, position = 0;
};

struct Free {
  void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{64}); }
};

// Operands with contents of their own, in two copies: for the op and for the direct call.
class OpBinding : public testing::Test {
 protected:
  // An operand of `count` f32, or bytes; returns its index.
  int Floats(int64_t count) {
    const int index = Bytes(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      const float value = common::NormalAt(7 + index, i);
      F(index)[i] = Direct<float>(index)[i] = value;
    }
    return index;
  }
  int Bytes(int64_t bytes) {
    for (auto* copy : {&bound_, &direct_}) {
      auto* data = static_cast<std::byte*>(
          ::operator new (std::max<int64_t>(bytes, 1), std::align_val_t{64}));
      std::memset(data, 0, bytes);
      copy->emplace_back(data);
    }
    bytes_.push_back(bytes);
    return static_cast<int>(bytes_.size()) - 1;
  }
  int Ints(int64_t count, int32_t below) {
    const int index = Bytes(count * 4);
    for (int64_t i = 0; i < count; ++i) {
      const auto value = static_cast<int32_t>(common::MixBits(index, i) % below);
      Bound<int32_t>(index)[i] = Direct<int32_t>(index)[i] = value;
    }
    return index;
  }
  int Scalars() { return Bytes(program::kScalarBytes); }
  void Set(int index, program::Scalar scalar, double value) {
    Bound<double>(index)[static_cast<int>(scalar)] = value;
    Direct<double>(index)[static_cast<int>(scalar)] = value;
  }

  template <typename T>
  T* Bound(int index) {
    return reinterpret_cast<T*>(bound_[index].get());
  }
  template <typename T>
  T* Direct(int index) {
    return reinterpret_cast<T*>(direct_[index].get());
  }
  float* F(int index) { return Bound<float>(index); }
  float* D(int index) { return Direct<float>(index); }

  std::vector<BoundOperand> Operands() {
    std::vector<BoundOperand> operands;
    for (size_t i = 0; i < bytes_.size(); ++i) {
      operands.push_back({.data = bound_[i].get(), .bytes = bytes_[i], .slot = bound_[i].get()});
    }
    return operands;
  }
  absl::Status Bind(const program::Op& op, BoundOp* bound) {
    absl::StatusOr<BoundOp> result = BindOp(op, Operands(), environment_);
    if (result.ok()) *bound = *std::move(result);
    return result.status();
  }
  // Runs the op, and `direct`; both copies of all operands but the workspace must then agree.
  void ExpectSame(const program::Op& op, const std::function<void()>& direct, int workspace = -1) {
    BoundOp bound;
    const absl::Status status = Bind(op, &bound);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(bound().ok());
    direct();
    for (size_t i = 0; i < bytes_.size(); ++i) {
      if (static_cast<int>(i) == workspace) continue;
      EXPECT_EQ(std::memcmp(bound_[i].get(), direct_[i].get(), bytes_[i]), 0) << "operand " << i;
    }
    ExpectRefusals(op, workspace);
  }
  // One operand too few, too small, and a workspace too small are all noticed.
  void ExpectRefusals(const program::Op& op, int workspace) {
    for (size_t i = 0; i < bytes_.size(); ++i) {
      std::vector<BoundOperand> operands = Operands();
      if (operands[i].bytes == 0) continue;
      operands[i].bytes = static_cast<int>(i) == workspace ? needed_workspace_ - 1 : 3;
      const absl::Status status = BindOp(op, operands, environment_).status();
      EXPECT_EQ(status.code(), static_cast<int>(i) == workspace
                                   ? absl::StatusCode::kFailedPrecondition
                                   : absl::StatusCode::kInvalidArgument)
          << "operand " << i << ": " << status;
    }
    std::vector<BoundOperand> fewer = Operands();
    fewer.pop_back();
    if (workspace < 0) {
      EXPECT_FALSE(BindOp(op, fewer, environment_).ok());
    }
    program::Op without = op;
    if (without.ints.empty()) return;
    without.ints.clear();
    EXPECT_FALSE(BindOp(without, Operands(), environment_).ok());
  }
  int Workspace(int64_t bytes) {
    needed_workspace_ = bytes;
    return Bytes(bytes);
  }

  FakeHost host_;
  device::ThreadPool pool_{2};
  MatmulPlans plans_{2};
  const kernels::Context context_{.pool = &pool_};
  OpEnvironment environment_{
      .context = context_, .plans = &plans_, .host = &host_, .vocabulary = 11};
  std::vector<std::unique_ptr<std::byte, Free>> bound_, direct_;
  std::vector<int64_t> bytes_;
  int64_t needed_workspace_ = 0;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_ENGINE_BINDING_BINDING_TESTING_H_
