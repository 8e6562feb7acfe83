// What the ranks of a job would say of themselves: whose groups they are in, whose addresses they
// need. Of the programs that trainers would compile of it, which are compiled, not run.
#ifndef STRATA_TESTS_BENCH_RANK_LAYOUT_H_
#define STRATA_TESTS_BENCH_RANK_LAYOUT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "google/protobuf/repeated_field.h"
#include "program/ir/mesh.h"
#include "proto/strata/v1/job.pb.h"
#include "proto/strata/v1/trainer.pb.h"

namespace strata::bench {

class RankLayout {
 public:
  using Order = google::protobuf::RepeatedPtrField<std::string>;

  // `job`: complete, of byte data. Takes seconds where there are many stages.
  static absl::StatusOr<RankLayout> Of(const v1::JobSpec& job);

  int ranks() const { return ranks_; }
  int most_peers() const { return most_peers_; }  // of a rank
  // The mesh of ranks that are numbered like this (PrepareEpoch.rank_order).
  absl::StatusOr<program::Mesh> MeshOf(const Order& order) const;
  // As its trainer does, in names and sizes.
  v1::Prepared Describe(const program::Mesh& mesh, int rank) const;

 private:
  // What all ranks of a stage have in common.
  struct Stage {
    std::string program_digest;
    std::map<program::Group, std::string> groups;  // that it communicates in: their digests
  };

  v1::JobSpec job_;
  int ranks_ = 0;
  int most_peers_ = 0;
  std::string plan_digest_;
  std::vector<Stage> stages_;
};

}  // namespace strata::bench

#endif  // STRATA_TESTS_BENCH_RANK_LAYOUT_H_
