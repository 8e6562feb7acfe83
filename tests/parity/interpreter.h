// Runs the templates of a layer graph one op after the other on one rank, through the engine's own
// binding of ops to kernels but with none of its layout, streams or programs: every formal and
// every local is a buffer of its own. Shows that templates are right by themselves.
//
// Memory that a template must write before it reads it starts as NaN.
#ifndef STRATA_TESTS_PARITY_INTERPRETER_H_
#define STRATA_TESTS_PARITY_INTERPRETER_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/thread_pool.h"
#include "model/model_spec.h"
#include "model/optimizer/adamw.h"
#include "program/ir/layer_graph.h"
#include "program/ir/scalars.h"
#include "worker/engine/op_binding.h"

namespace strata::parity {

// Bytes aligned to a cache line.
class Buffer {
 public:
  Buffer() = default;
  // Every byte is `fill`; 0xFF makes floats NaN.
  Buffer(int64_t bytes, int fill);
  std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }
  absl::Span<float> floats() const {
    return {reinterpret_cast<float*>(data_.get()), static_cast<size_t>(bytes_ / 4)};
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_ = 0;
};

class Interpreter {
 public:
  // `spec`: what constants hold.
  Interpreter(program::LayerGraph graph, const model::ModelSpec& spec, int threads);

  const program::LayerGraph& graph() const { return graph_; }
  // In the set's flat layout; parameters of f32 sets. They start as zeros.
  absl::Span<float> parameters(int set) const { return parameters_[set].floats(); }
  absl::Span<float> gradients(int set) const { return gradients_[set].floats(); }
  // The same of any type: rounds each value to the set's.
  void SetParameters(int set, absl::Span<const float> values);

  void ZeroGradients();
  // One pass: tokens and targets [micro_batch, sequence]. Adds to the gradients, scaled by
  // `inverse_tokens`; returns the sum of the losses. `split`: backward_input of all layers, then
  // backward_weight of all. `positions`: of graphs with documents.
  absl::StatusOr<double> TrainPass(absl::Span<const int32_t> tokens,
                                   absl::Span<const int32_t> targets, double inverse_tokens,
                                   bool split, absl::Span<const int32_t> positions = {});
  // Sum of the losses, with the evaluate templates.
  absl::StatusOr<double> EvaluatePass(absl::Span<const int32_t> tokens,
                                      absl::Span<const int32_t> targets);
  // One AdamW update from the gradients, clipped (0: not); returns the norm before clipping.
  absl::StatusOr<double> Update(const model::AdamWSpec& spec, double learning_rate, double clip);

  // Decoding of one sequence. Starts anew:
  void ClearCaches();
  // Appends tokens (a chunk at most) through the prefill or the decode templates; returns their
  // logits [tokens, V].
  absl::StatusOr<std::vector<float>> Append(absl::Span<const int32_t> tokens, bool prefill);

 private:
  // Of a layer, by role and index.
  using Key = std::tuple<size_t, program::Role, int>;
  using Bind = std::function<std::byte*(const program::Formal&)>;

  absl::Status Call(const program::Template& called, const Bind& bind);
  absl::Status CallLayer(size_t layer, int index);
  std::byte* BindFormal(size_t layer, const program::Formal& formal);
  // The buffer of this key; made, and filled with NaN, when there is none of that size.
  std::byte* Place(const Key& key, int64_t bytes);
  absl::Status Backward(bool split);
  absl::Status UpdateSet(int set, const model::AdamWSpec& spec);
  double& scalar(program::Scalar scalar) {
    return reinterpret_cast<double*>(scalars_.data())[static_cast<int>(scalar)];
  }
  double& loss() { return *reinterpret_cast<double*>(loss_.data()); }
  void LoadTokens(absl::Span<const int32_t> tokens, absl::Span<const int32_t> targets);

  program::LayerGraph graph_;
  device::ThreadPool pool_;
  worker::MatmulPlans plans_;
  std::vector<Buffer> parameters_, gradients_, first_moments_, second_moments_, constants_;
  std::vector<Buffer> caches_;    // per layer
  std::map<Key, Buffer> places_;  // saved, stash; activations by the layer that writes them
  Buffer tokens_, targets_, positions_, loss_, scalars_, gradient_stream_, logits_, workspace_;
  bool split_ = false;
};

}  // namespace strata::parity

#endif  // STRATA_TESTS_PARITY_INTERPRETER_H_
