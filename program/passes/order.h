// What happens before what, over consecutive copies of a step: vector clocks with one entry per
// stream.
#ifndef STRATA_PROGRAM_PASSES_ORDER_H_
#define STRATA_PROGRAM_PASSES_ORDER_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/ir/template.h"

namespace strata::program {

// Nodes are added in list order, step after step; a node's dependencies must have been added before
// it.
class Order {
 public:
  // `before`: ids returned by earlier Add calls. Returns this node's id.
  int Add(Stream stream, const std::vector<int>& before);
  // The end of `earlier` comes before the start of `later`.
  bool HappensBefore(int earlier, int later) const {
    return earlier == later ||
           clocks_[later][static_cast<int>(nodes_[earlier].stream)] >= nodes_[earlier].position;
  }
  // Adds an edge to the newest node. `later` must be the id returned last.
  void AddEdge(int earlier, int later);

 private:
  using Clock =
      std::array<int32_t, kStreamCount>;  // per stream: how many of its nodes have ended before
  struct Node {
    Stream stream;
    int32_t position;  // 1-based on its stream
  };
  void Join(Clock& clock, int earlier) const;

  std::vector<Node> nodes_;
  std::vector<Clock> clocks_;
  std::array<int, kStreamCount> newest_ = MakeEmpty();
  static constexpr std::array<int, kStreamCount> MakeEmpty() {
    std::array<int, kStreamCount> empty{};
    for (int& value : empty) value = -1;
    return empty;
  }
};

// Stands for the caller's stream, which a template does not know. Nothing: its ops name them all.
std::optional<Stream> StreamThatNoOpNames(const Template& tmpl);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_ORDER_H_
