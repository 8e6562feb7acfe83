// The files that users write. The first byte says which: 'j' a job, 'p' a policy, 't' a topology.
#include <cstdint>
#include <string>

#include "common/check.h"
#include "spec/job_file.h"
#include "spec/policy_file.h"
#include "spec/problems.h"
#include "spec/validate.h"
#include "topology/cluster.h"
#include "topology/import/topology_file.h"

namespace strata {
namespace {

void ReadAsJob(const std::string& text) {
  spec::Problems problems("job.yaml");
  const spec::JobFile file = spec::ReadJob(text, {}, problems);
  if (problems.empty()) {
    spec::Problems again("again.yaml");
    spec::ReadJob(spec::WriteJob(file.job), {}, again);
    STRATA_CHECK(again.empty());
  }
  spec::CheckSupported(file.job, file.positions, problems);
  problems.ToString();
}

void ReadAsPolicy(const std::string& text) {
  spec::Problems problems("policy.yaml");
  const spec::PolicyFile file = spec::ReadPolicy(text, problems);
  if (!problems.empty()) return;
  spec::Problems again("again.yaml");
  spec::ReadPolicy(spec::WritePolicy(file.policy), again);
  STRATA_CHECK(again.empty());
}

void ReadAsTopology(const std::string& text) {
  const auto description = topology::ReadTopologyFile(text, "topology.yaml");
  if (!description.ok()) return;
  STRATA_CHECK(topology::Cluster::Make(*description).ok());
  STRATA_CHECK(topology::ReadTopologyFile(topology::WriteTopologyFile(*description), "again").ok());
}

}  // namespace
}  // namespace strata

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'j') strata::ReadAsJob(text);
  if (data[0] == 'p') strata::ReadAsPolicy(text);
  if (data[0] == 't') strata::ReadAsTopology(text);
  return 0;
}
