// A YAML tree as a message whose fields are the file's keys (JobSpec, Policy): keys, types, words
// and bounds. No defaults, and nothing that concerns two fields.
#ifndef STRATA_SPEC_READER_H_
#define STRATA_SPEC_READER_H_

#include <google/protobuf/message.h>

#include "absl/strings/string_view.h"
#include "spec/position_map.h"
#include "spec/problems.h"
#include "spec/yaml_tree.h"

namespace strata::spec {

// Fields with a problem stay unset. `root` is a kNull node for an empty file. `example`: how such a
// file begins, for who wrote another kind of thing.
void ReadTree(const YamlNode& root, absl::string_view example, google::protobuf::Message& file,
              PositionMap& positions, Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_READER_H_
