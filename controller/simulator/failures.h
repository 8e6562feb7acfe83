// What breaks, how often, how it shows, and how long the repair takes.
//
// Frequencies are those of Llama 3 405B's training (Grattafiori et al., "The Llama 3 Herd of
// Models", 2024, section 3.3.4, table 5): 419 unexpected interruptions in 54 days on 2,048 nodes of
// eight cards, 3.79 per 1,000 node-days. How each cause shows and how long the node is away is not
// published: those columns are assumptions.
#ifndef STRATA_CONTROLLER_SIMULATOR_FAILURES_H_
#define STRATA_CONTROLLER_SIMULATOR_FAILURES_H_

#include <string>
#include <vector>

#include "common/random.h"

namespace strata::simulator {

enum class Effect {
  kProcessDies,  // a trainer ends with a word; the node stays
  kDeviceDies,   // the same, and the node leaves for repair, with all that runs there
  kPowerLoss,    // the whole node is gone without a word
  kHang,         // a rank stops moving; its agent finds out
  kUnreachable,  // the node lives, but nobody reaches it
  kSwitch,       // the same for all nodes that share its innermost switch
  kMaintenance,  // an operator drains the node, takes it away, brings it back
};
const char* NameOf(Effect effect);

struct Cause {
  const char* name;
  int count;  // of the 419
  Effect effect;
  double repair_hours;  // mean of an exponential distribution; 0: the node stays
};

inline constexpr double kDaySeconds = 86400;
inline constexpr double kPublishedDays = 54;
inline constexpr double kPublishedNodes = 2048;
const std::vector<Cause>& PublishedCauses();

// Failures of one node of `causes`, per second, at `scale` times the published rate.
double RatePerNodeSecond(const std::vector<Cause>& causes, double scale);
// Index of a cause, by the counts.
int DrawCause(const std::vector<Cause>& causes, common::Random& random);

// The table, and what each effect means, for people.
std::string ExplainFailures();

}  // namespace strata::simulator

#endif  // STRATA_CONTROLLER_SIMULATOR_FAILURES_H_
