#include "scheduler/queue/queue.h"

#include "scheduler/queue/pass.h"

namespace strata::scheduler {

Decisions Decide(const View& view) { return Pass(view).Run(); }

}  // namespace strata::scheduler
