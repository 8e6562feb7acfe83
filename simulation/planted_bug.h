// Faults that the simulation itself can be given, to prove that its invariants see them.
#ifndef STRATA_SIMULATION_PLANTED_BUG_H_
#define STRATA_SIMULATION_PLANTED_BUG_H_

namespace strata::simulation {

enum class PlantedBug {
  kNone,
  kSpeaksBeforeDurable,  // messages and answers are released before their transaction
  kLosesAWrite,          // a transaction now and then misses a job's record
  kForgetsItsTerm,       // a controller's term is not stored
  kForgetsTrainers,      // an agent comes back without the trainers that live
  kConfirmsTooEarly,     // an agent says that ranks have ended while they are being ended
  kIgnoresStop,          // an agent never ends ranks when told to
  kSwallowsAnswers,      // an agent now and then takes no note of a commit's answer
  kInventsManifests,     // a commit is asked for before all ranks have written
  kInventsDamage,        // ranks now and then say of a checkpoint that is whole that it is damaged
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_PLANTED_BUG_H_
