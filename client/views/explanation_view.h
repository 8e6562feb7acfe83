// What `strata explain` prints.
#ifndef STRATA_CLIENT_VIEWS_EXPLANATION_VIEW_H_
#define STRATA_CLIENT_VIEWS_EXPLANATION_VIEW_H_

#include <string>

#include "client/views/structured.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::client {

// name, state, lines, blockers [{code, subject, text}], queue_position (0: it does not wait),
// devices_wanted and devices_free; expected_start_time where it is known, layout and mesh
// (mesh_view.h) while it has a place.
Json ExplanationJson(const std::string& name, const v1::ExplainJobResponse& explained);

// The lines, and the mesh while it has a place.
std::string ExplanationText(const v1::ExplainJobResponse& explained);

}  // namespace strata::client

#endif  // STRATA_CLIENT_VIEWS_EXPLANATION_VIEW_H_
