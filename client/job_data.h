// What of a job follows from its data files: token files of those that trainers cannot read, and
// the steps of its epochs.
#ifndef STRATA_CLIENT_JOB_DATA_H_
#define STRATA_CLIENT_JOB_DATA_H_

#include <string>

#include "absl/status/status.h"
#include "client/job_loading.h"
#include "client/terminal/terminal.h"

namespace strata::client {

// Completes a job that LoadJob has loaded. Records, and text where the job has a tokenizer, become
// token files in `cache_folder` (see TokenFileCache), which take their places in the job; what they
// were made of is kept beside them. With train.epochs the job gets its steps, which is told: passes
// over all sequences of all files. Files without weights are then weighted by their sequences, so
// that each pass reads every sequence once; with weights an epoch ends when the file that is
// longest for its weight has been read, the others more often. Errors as LoadJob's, and all that is
// wrong in the data files, `FILE:LINE: why`.
absl::Status CompleteJob(const std::string& cache_folder, Terminal& terminal, LoadedJob& job);

}  // namespace strata::client

#endif  // STRATA_CLIENT_JOB_DATA_H_
