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
  kPublishesUnrecorded,  // a checkpoint gets its final name before the controller has recorded it
  kRepeatsNothing,       // a rank that finds its agent again repeats nothing of what it had said
  kGivesNoSignsOfLife,   // an agent says nothing to its ranks as long as there is nothing to say
  kEndsRanksAtHandOver,  // an agent that is told to stop ends its ranks
  kLosesStepRecords,     // a step's record now and then does not reach the file
  kForgetsToKeep,        // a controller's welcome now and then leaves out an epoch that it wants
  kDropsFragments,       // an agent's word of files that were written is now and then lost
  kSeesNoHangs,          // nobody is told how long ranks have been where they are
  kDropsOlderManifests,  // of two checkpoints the older is not committed after the newer
  kForgetsFragments,     // an agent's successor does not know what ranks wrote that have ended
  kPublishesWhenOver,    // an epoch that is told late to start cuts the records of the next one
  kStartsBackupAsItIs,   // a store that was put back begins no other life
  kSeesNoNewerCheckpoint,  // ranks take the newest checkpoint for the one that the backup knows
  kTellsNoRanks,           // an agent does not say which ranks of an epoch are on its node
  kDropsStoppingSteps,     // an agent's word of the step that ranks stop in is now and then lost
  kEndsRanksWhenRefused,   // an agent that a controller refuses for its protocol ends its ranks
  kKeepsErasedRecords,     // what a transaction removes is there again after a start
  kTakesAllForItsOwn,      // a controller takes every agent for one of its own release
  kForgetsUpdates,         // an agent starts ranks with the steps that the job was submitted with
};

}  // namespace strata::simulation

#endif  // STRATA_SIMULATION_PLANTED_BUG_H_
