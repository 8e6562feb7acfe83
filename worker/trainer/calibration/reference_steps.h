// The steps that a calibration measures: small models of several widths, lengths and layouts, so
// that the shapes of others lie between theirs.
#ifndef STRATA_WORKER_TRAINER_CALIBRATION_REFERENCE_STEPS_H_
#define STRATA_WORKER_TRAINER_CALIBRATION_REFERENCE_STEPS_H_

#include <vector>

#include "worker/trainer/calibration/training_rank.h"

namespace strata::worker {

struct ReferenceStep {
  TrainingSpec spec;
  int repetitions = 1;  // measured steps
};

// Of one rank that communicates with nobody, by ascending work.
std::vector<ReferenceStep> StepsOfOneRank(int threads, bool quick);
// A short one of one rank, of more bytes than a processor's caches hold.
TrainingSpec StepBesideMessages(int threads, bool quick);
// Of two ranks, in layouts that have ops of their own: tensor, context and zero-bubble pipeline.
std::vector<ReferenceStep> StepsOfTwoRanks(int threads, bool quick);

// Of one rank on a device, in f32 and in bf16, which devices multiply many times faster, with
// masters and moments in f32 and in as few bits as there are.
std::vector<ReferenceStep> StepsOfDevice(bool quick);
// Of a rank of two on a device, in the same layouts as above.
std::vector<ReferenceStep> StepsOfTwoDevices(bool quick);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_CALIBRATION_REFERENCE_STEPS_H_
