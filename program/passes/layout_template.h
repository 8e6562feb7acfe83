// The frame of a template. Internal to the layout.
#ifndef STRATA_PROGRAM_PASSES_LAYOUT_TEMPLATE_H_
#define STRATA_PROGRAM_PASSES_LAYOUT_TEMPLATE_H_

#include "program/ir/program.h"

namespace strata::program {

// Places locals in the frame by their uses in op order, then orders ops on different streams that
// share bytes; `horizon`: see LayoutOptions.
void LayOutTemplate(Template& tmpl, const GroupSizes& groups, int horizon);

}  // namespace strata::program

#endif  // STRATA_PROGRAM_PASSES_LAYOUT_TEMPLATE_H_
