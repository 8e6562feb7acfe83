// The rotary part of a config.json, in its older and its newer form.
#ifndef STRATA_CHECKPOINT_HUGGINGFACE_ROPE_CONFIG_H_
#define STRATA_CHECKPOINT_HUGGINGFACE_ROPE_CONFIG_H_

#include <nlohmann/json.hpp>

#include "checkpoint/huggingface/config_fields.h"
#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::checkpoint {

// Fills model.rope of a model whose family and sizes are known.
void ReadRope(const ConfigFields& config, v1::ModelSpec& model);

// Sets the keys of both forms, and removes what `config` had under them.
void WriteRope(const model::ModelSpec& model, nlohmann::json& config);

}  // namespace strata::checkpoint

#endif  // STRATA_CHECKPOINT_HUGGINGFACE_ROPE_CONFIG_H_
