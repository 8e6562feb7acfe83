#include "scheduler/queue.h"

#include "scheduler/queue_pass.h"

namespace strata::scheduler {

Decisions Decide(const View& view) { return Pass(view).Run(); }

}  // namespace strata::scheduler
