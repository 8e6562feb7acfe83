// Whether a job may go on from a checkpoint that a differently written job made.
#ifndef STRATA_WORKER_TRAINER_JOB_DIFFERENCE_H_
#define STRATA_WORKER_TRAINER_JOB_DIFFERENCE_H_

#include <string>
#include <vector>

#include "proto/strata/v1/job.pb.h"

namespace strata::worker {

struct JobDifference {
  // "model.hidden: 64, the checkpoint's 128": another model, optimizer, data or order of samples.
  // The job cannot go on.
  std::vector<std::string> refused;
  // What the user may change and should know of: the learning rate's schedule, the tree of sums.
  std::vector<std::string> told;
};

// How the data files of both are compared.
enum class DataFilesBy {
  kPath,     // here: nothing else is known of the checkpoint's
  kContent,  // elsewhere (CheckSameData): a file may have been moved
};

// Not compared is what changes neither what is computed nor in which order: names, layout, number
// of steps, evaluation, checkpoints, resources.
JobDifference CompareJobs(const v1::JobSpec& job, const v1::JobSpec& checkpoint, DataFilesBy by);

}  // namespace strata::worker

#endif  // STRATA_WORKER_TRAINER_JOB_DIFFERENCE_H_
