// Runs the templates of a tensor group's ranks in one process, op by op in lockstep: a collective
// happens when all ranks have reached it. Dependencies between streams play no part here; the order
// in which templates list their ops does.
#ifndef STRATA_TESTS_PARITY_TENSOR_GROUP_H_
#define STRATA_TESTS_PARITY_TENSOR_GROUP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/thread_pool.h"
#include "program/ir/layer_graph.h"
#include "tests/parity/interpreter.h"

namespace strata::parity {

class TensorGroup {
 public:
  // `graph` is of options with this tensor degree.
  TensorGroup(program::LayerGraph graph, const model::ModelSpec& spec, int degree);

  const program::LayerGraph& graph() const { return graph_; }
  absl::Span<float> parameters(int rank, int set) const {
    return ranks_[rank].parameters[set].floats();
  }
  absl::Span<float> gradients(int rank, int set) const {
    return ranks_[rank].gradients[set].floats();
  }
  // One pass, as Interpreter::TrainPass; the loss of every rank.
  absl::StatusOr<std::vector<double>> TrainPass(absl::Span<const int32_t> tokens,
                                                absl::Span<const int32_t> targets,
                                                double inverse_tokens, bool split,
                                                absl::Span<const int32_t> positions = {});

 private:
  using Key = std::tuple<size_t, program::Role, int>;  // of a layer, by role and index

  struct Rank {
    std::vector<Buffer> parameters, gradients;
    std::map<Key, Buffer> places;
    Buffer loss, stream;
    std::vector<std::byte*> slots;  // of the template being called
    std::vector<Buffer> locals;
  };

  absl::Status CallLayer(size_t layer, int index);
  absl::Status Run(const program::Op& op);
  absl::Status Collect(const program::Op& op);
  std::byte* BindFormal(Rank& rank, size_t layer, const program::Formal& formal);
  std::byte* At(const Rank& rank, const program::Op& op, size_t operand) const {
    return rank.slots[op.operands[operand].slot] + op.operands[operand].offset;
  }

  program::LayerGraph graph_;
  device::ThreadPool pool_;
  worker::MatmulPlans plans_;
  std::vector<Rank> ranks_;
  Buffer tokens_, targets_, positions_, scalars_;
  std::vector<Buffer> constants_;
  bool split_ = false;
};

}  // namespace strata::parity

#endif  // STRATA_TESTS_PARITY_TENSOR_GROUP_H_
