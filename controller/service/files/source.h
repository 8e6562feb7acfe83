// What streams read back of files before they go on live.
#ifndef STRATA_CONTROLLER_SERVICE_FILES_SOURCE_H_
#define STRATA_CONTROLLER_SERVICE_FILES_SOURCE_H_

#include <functional>
#include <vector>

#include "absl/status/statusor.h"

namespace strata::controller {

template <typename Message>
struct Piece {
  std::vector<Message> messages;  // may be empty before the last one, too
  bool last = false;
};

// The next piece, each of a little work: between two of them others get their turn.
template <typename Message>
using Source = std::function<absl::StatusOr<Piece<Message>>()>;

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_FILES_SOURCE_H_
