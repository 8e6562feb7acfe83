// Where each field of a job stands in its file, so that whoever finds a problem later (a file is
// missing, the model does not fit) can point to it.
#ifndef STRATA_SPEC_POSITION_MAP_H_
#define STRATA_SPEC_POSITION_MAP_H_

#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "spec/problems.h"

namespace strata::spec {

class PositionMap {
 public:
  // `path`: data.train[0].path. A value's own position; for sections and lists, the key's.
  void Add(absl::string_view path, Position position) { positions_[std::string(path)] = position; }
  bool Has(absl::string_view path) const { return positions_.count(std::string(path)) > 0; }
  // Of the field, or of the nearest section around it that the file has; 1:1 when there is none.
  Position Of(absl::string_view path) const;

 private:
  std::map<std::string, Position> positions_;
};

}  // namespace strata::spec

#endif  // STRATA_SPEC_POSITION_MAP_H_
