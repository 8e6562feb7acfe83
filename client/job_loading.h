// From a job file's path to a job that can be started: read, checked against the files it names,
// paths absolute.
#ifndef STRATA_CLIENT_JOB_LOADING_H_
#define STRATA_CLIENT_JOB_LOADING_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/decide_layout.h"
#include "data/corpus.h"
#include "spec/job_file.h"

namespace strata::client {

struct LoadedJob {
  spec::JobFile file;
  std::string path;                       // of the job file, as the user wrote it
  std::vector<std::string> notices = {};  // for the user, one line each
};

// Reads the file, resolves its paths against its folder, opens what it names, checks that Strata
// can do it and that it can fit into the basis' memory. InvalidArgument (exit 2) or
// ResourceExhausted (exit 3) with every problem, one line each, ending in a newline. What the file
// leaves to be decided (`auto`) is. Creates nothing: what follows from the content of data files
// comes with CompleteJob (job_data.h).
absl::StatusOr<LoadedJob> LoadJob(const std::string& path, const spec::ReadOptions& options,
                                  const DecisionBasis& basis);

// The legal layouts of a job's ranks, whatever layout it has, fastest first: at least one. Errors:
// ReadJobAlone's, RankHere's, and at `parallel` that no layout is legal.
absl::StatusOr<RankedLayouts> RankLayoutsOf(const std::string& path,
                                            const spec::ReadOptions& options,
                                            const DecisionBasis& basis);

// Only the file itself, its paths resolved: nothing that it names need be there (but the tokenizer
// that is to tell model.vocab, and the config.json of model.from), and what Strata cannot train yet
// is no problem. InvalidArgument as above.
absl::StatusOr<LoadedJob> ReadJobAlone(const std::string& path, const spec::ReadOptions& options);

// The data files of a job whose paths are absolute. Files without a weight get 1.
data::CorpusSpec CorpusOf(const strata::v1::JobSpec& job);

// Sets checkpoint.directory (default: `checkpoints` in `job_directory`), creates both folders,
// checks that they can be written to, and refuses checkpoints that are already there unless
// `resume`. Same errors.
absl::Status PrepareDirectories(const std::string& job_directory, bool resume, LoadedJob& job);

// Refuses a path that is not UTF-8, which no request could carry; `what` names it ("--dir").
// InvalidArgument. To be asked before anything is created.
absl::Status CheckPathText(absl::string_view what, const std::string& path);

// Whether a file can be written at `path`; leaves nothing behind that was not there.
// InvalidArgument otherwise.
absl::Status CheckWritableFile(const std::string& path);

// `path` made absolute against `folder` (itself absolute, or empty for the working directory),
// without `.` and `..`.
std::string Absolute(const std::string& path, const std::string& folder = "");

}  // namespace strata::client

#endif  // STRATA_CLIENT_JOB_LOADING_H_
