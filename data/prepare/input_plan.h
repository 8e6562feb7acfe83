// What is to be read of the inputs, and whether it is still the same.
#ifndef STRATA_DATA_PREPARE_INPUT_PLAN_H_
#define STRATA_DATA_PREPARE_INPUT_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "data/prepare/document_reader.h"
#include "data/prepare/prepare.h"

namespace strata::data {

struct PlannedInput {
  std::string path;
  bool lines = true;  // JSONL, else a text
  int64_t bytes = 0;
  int64_t whole_passes = 1;
  uint64_t last_share = 0;  // of 2^32: the documents of one more pass
  std::string identity;     // changes when the file does

  int64_t passes() const { return whole_passes + (last_share > 0 ? 1 : 0); }
  // Whether a pass takes a document; a partial one takes those that its share, spread evenly,
  // falls on.
  bool Takes(int64_t pass, int64_t document) const;
};

// Opens every input. InvalidArgument and others: what is wrong with each, one a line.
absl::StatusOr<std::vector<PlannedInput>> PlanInputs(const PrepareOptions& options);

}  // namespace strata::data

#endif  // STRATA_DATA_PREPARE_INPUT_PLAN_H_
