#include "spec/memory_text.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spec/defaults.h"
#include "spec/position_map.h"
#include "spec/reader.h"
#include "spec/validate_memory.h"
#include "spec/yaml_tree.h"

namespace strata::spec {

strata::v1::MemorySpec ReadMemory(absl::string_view text, Problems& problems) {
  constexpr absl::string_view kKey = "memory: ";
  Problems found(problems.file());
  PositionMap positions;
  strata::v1::JobSpec job;
  const std::unique_ptr<YamlNode> root = ParseYaml(absl::StrCat(kKey, text), found);
  if (root != nullptr) {
    ReadTree(*root, "{device: 2GiB, place: {parameters: host}}", job, positions, found);
    if (job.memory().automatic()) {
      found.Add({positions.Of("memory"), "memory", "auto is not supported yet",
                 "name the tiers, such as {device: 2GiB, place: {parameters: host}}"});
    }
    if (job.memory().place().automatic()) {
      found.Add({positions.Of("memory.place"), "memory.place", "auto is not supported yet",
                 "name the tiers, such as {parameters: host}"});
    }
    MemoryDefaults(*job.mutable_memory());
    ValidateMemory(job, positions, found);
  }
  for (Problem problem : found.Sorted()) {
    if (problem.position.line == 1) {
      problem.position.column =
          std::max(1, problem.position.column - static_cast<int>(kKey.size()));
    }
    problems.Add(std::move(problem));
  }
  return job.memory();
}

}  // namespace strata::spec
