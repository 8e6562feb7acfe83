// FLOPs of a model's passes, summed from the ops of its templates.
#ifndef STRATA_MODEL_FLOPS_H_
#define STRATA_MODEL_FLOPS_H_

#include "program/ir/layer_graph.h"

namespace strata::model {

// Of one pass over B·T tokens (one rank's part). The head's forward is in `backward`, as its
// template is.
struct PassFlops {
  double forward = 0;
  double backward = 0;
  // Of these, what backward computes a second time: attention scores, and whatever its layer did
  // not save. Throughput figures that count the model's arithmetic only ("model FLOPs", Chowdhery
  // et al., "PaLM", 2022, app. B) leave it out.
  double recomputed = 0;

  double executed() const { return forward + backward; }
  double model() const { return executed() - recomputed; }
};

PassFlops CountTraining(const program::LayerGraph& graph);
double CountEvaluation(const program::LayerGraph& graph);

}  // namespace strata::model

#endif  // STRATA_MODEL_FLOPS_H_
