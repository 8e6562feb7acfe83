// `--set PATH=VALUE`: changes of a job file from the command line, made on its tree before it is
// read.
#ifndef STRATA_SPEC_OVERLAY_H_
#define STRATA_SPEC_OVERLAY_H_

#include "absl/strings/string_view.h"
#include "spec/problems.h"
#include "spec/yaml_tree.h"

namespace strata::spec {

// `setting`: a dotted path with [i] for list elements, `=`, a value in YAML's flow style. Creates
// what is missing on the way; [i] may be one past the end. What the path names is replaced whole.
// Problems stand at `--set:1:COLUMN`.
void ApplySetting(absl::string_view setting, YamlNode& root, Problems& problems);

}  // namespace strata::spec

#endif  // STRATA_SPEC_OVERLAY_H_
