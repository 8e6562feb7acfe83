// The adapters that a job's train section asks for.
#ifndef STRATA_MODEL_LORA_PROTO_H_
#define STRATA_MODEL_LORA_PROTO_H_

#include "model/passes/model_graph.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::model {

// Whether adapters are trained, and checkpoints hold them alone.
inline bool TrainsAdapters(const v1::TrainSpec& train) {
  return train.method() == v1::TrainSpec::METHOD_LORA ||
         train.method() == v1::TrainSpec::METHOD_QLORA;
}

// Rank 0 where none are trained.
LoraOptions LoraOf(const v1::TrainSpec& train);

}  // namespace strata::model

#endif  // STRATA_MODEL_LORA_PROTO_H_
