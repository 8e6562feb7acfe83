// Whether a job goes with the adapter that it goes on from, before any rank starts.
#ifndef STRATA_CLIENT_ADAPTER_CHECK_H_
#define STRATA_CLIENT_ADAPTER_CHECK_H_

#include <string>
#include <vector>

#include "model/model_spec.h"
#include "proto/strata/v1/job.pb.h"

namespace strata::client {

struct AdapterProblem {
  std::string key;  // of the job file, that is to be corrected
  std::string what;
  std::string remedy;  // empty: `what` says it
};

// What is wrong with model.adapter of a job of this model whose paths are absolute: a directory
// that cannot be read, another rank, alpha or targets than the job's, tensors of other shapes.
// Reads no values.
std::vector<AdapterProblem> CheckAdapter(const v1::JobSpec& job, const model::ModelSpec& model);

}  // namespace strata::client

#endif  // STRATA_CLIENT_ADAPTER_CHECK_H_
