#include "client/memory_flag.h"

#include "client/job_loading.h"
#include "spec/memory_text.h"
#include "spec/problems.h"

namespace strata::client {

Flag MemoryFlag() {
  return {"--memory", Flag::Kind::kText, "TIERS",
          "where parameters live, as `memory` of job files: '{device: 2GiB, place: {parameters: "
          "host}, stream: {resident: 2, moved: 1}}'"};
}

absl::Status SetMemory(const Arguments& arguments, strata::v1::StandaloneRequest& request) {
  if (!arguments.Has("--memory")) return absl::OkStatus();
  spec::Problems problems("--memory");
  *request.mutable_memory() = spec::ReadMemory(arguments.Text("--memory"), problems);
  for (auto& ssd : *request.mutable_memory()->mutable_ssd()) {
    ssd.set_path(Absolute(ssd.path()));
  }
  return problems.ToStatus();
}

}  // namespace strata::client
