// When nodes were deleted: whoever has a certificate from before then is not that node any more.
#ifndef STRATA_CONTROLLER_LOGIC_REMOVED_NODES_H_
#define STRATA_CONTROLLER_LOGIC_REMOVED_NODES_H_

#include <cstdint>
#include <map>
#include <string>

#include "controller/logic/effects.h"

namespace strata::controller {

// Kept in the table "removed_nodes" (key: nodes/NAME, value: the time). Also of names that have
// joined anew, as the old certificates may still be about. Times are whole Unix seconds.
class RemovedNodes {
 public:
  static constexpr char kTable[] = "removed_nodes";

  // One record of the table; false: it cannot be read.
  bool Restore(const Write& record);

  void Add(const std::string& node, double now, Effects& effects);
  // Certificates of the node (nodes/NAME) are good that begin then or later; 0: all.
  double Since(const std::string& node) const;

 private:
  std::map<std::string, int64_t> removed_;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_LOGIC_REMOVED_NODES_H_
