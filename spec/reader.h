// A YAML tree as a JobSpec: keys, types, words and bounds. No defaults, and nothing that concerns
// two fields.
#ifndef STRATA_SPEC_READER_H_
#define STRATA_SPEC_READER_H_

#include "proto/strata/v1/job.pb.h"
#include "spec/position_map.h"
#include "spec/problems.h"
#include "spec/yaml_tree.h"

namespace strata::spec {

// Fields with a problem stay unset. `root` is null or a kNull node for an empty file.
void ReadTree(const YamlNode& root, strata::v1::JobSpec& job, PositionMap& positions,
              Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_READER_H_
