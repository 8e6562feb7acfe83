// How long a text may be that comes from outside and is kept or shown.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_TEXT_LIMITS_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_TEXT_LIMITS_H_

#include <cstddef>
#include <string>

#include "proto/strata/v1/agent.pb.h"

namespace strata::controller {

inline constexpr size_t kMostTextBytes = size_t{1} << 10;
inline constexpr size_t kMostPathBytes = size_t{4} << 10;

// To `most` bytes and a mark, at a character's beginning.
void CutText(size_t most, std::string& text);

// All texts of a message, at any depth. Not the fragments of manifests, which must be whole, and
// not log lines, which have a limit of their own (LogBook).
void CutTexts(v1::AgentMessage& message);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_TEXT_LIMITS_H_
