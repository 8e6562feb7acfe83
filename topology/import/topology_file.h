// The topology file: a cluster described in YAML.
//
//   levels: [zone, domain]              # outermost first; may be left out: then there are none
//   domain_level: domain                # default: the innermost
//   pipeline_level: zone                # default: the level named zone
//   links:
//     zone: {bytes_per_second: 7e9, latency_seconds: 2e-5, oversubscription: 7}
//   nodes:
//     - {name: n0, at: {zone: z0, domain: d0}, device: h100, devices: 8, free: [0, 1], healthy:
//     true}
//     - {name: "m[0000-0383]", at: {zone: "z{i/128}", domain: "d{i/2}"}, device: h100, devices: 8}
//
// A name with brackets stands for one node per number, in which `{…}` in `at` is whole-number
// arithmetic (+ - * / % and parentheses) of i, the number in the node's name. `at` may leave levels
// out (topology::Node says what that means). `free` is a count, the first so many indices, or a
// list of indices; all when it is left out.
#ifndef STRATA_TOPOLOGY_IMPORT_TOPOLOGY_FILE_H_
#define STRATA_TOPOLOGY_IMPORT_TOPOLOGY_FILE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "topology/cluster.h"

namespace strata::topology {

inline constexpr size_t kMostTopologyBytes = size_t{64} << 20;

// Strict: InvalidArgument holds every problem as `FILE:LINE:COLUMN: PATH: what (why) — what to do`,
// one a line, `file` as the user wrote it. What is returned, Cluster::Make takes.
absl::StatusOr<Description> ReadTopologyFile(absl::string_view text, const std::string& file);

// The file that reads back as the same description: one line a node.
std::string WriteTopologyFile(const Description& description);

// The whole of a file of at most kMostTopologyBytes. InvalidArgument, naming the path: it cannot be
// read, or is too large.
absl::StatusOr<std::string> ReadTopologyText(const std::string& path);

}  // namespace strata::topology

#endif  // STRATA_TOPOLOGY_IMPORT_TOPOLOGY_FILE_H_
