// The job file: YAML in, JobSpec out, with every problem at its place, and back.
#ifndef STRATA_SPEC_JOB_FILE_H_
#define STRATA_SPEC_JOB_FILE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/strata/v1/job.pb.h"
#include "spec/position_map.h"
#include "spec/problems.h"

namespace strata::spec {

struct JobFile {
  strata::v1::JobSpec job;  // defaults applied; paths as written
  PositionMap positions;    // of the fields that the file or a setting gave
};

// What a Hugging Face directory says of a job.
struct ModelDirectory {
  strata::v1::ModelSpec model;  // what its config.json tells
  bool has_tokenizer = false;   // which the job has, unless the file names one
};

struct ReadOptions {
  std::string default_name = "job";   // used when the file has no `name` (NameFromFile)
  std::vector<std::string> settings;  // --set PATH=VALUE, applied in this order
  std::optional<int64_t> ranks;       // --ranks
  // Of the tokenizer in a folder, as the file writes it: the default of model.vocab. Nothing: it
  // cannot be told, and model.vocab stays absent.
  std::function<std::optional<int64_t>(const std::string& tokenizer)> vocabulary_of = nullptr;
  // Of the directory that model.from names, as the file writes it: what the model is. Nothing: it
  // cannot be told, and sizes stay absent.
  std::function<std::optional<ModelDirectory>(const std::string& from)> model_of = nullptr;
  // Whoever wrote it (strata submit) has read the files that it names: what follows from them must
  // be there, also beside what it follows from (train.steps beside train.epochs).
  bool completed = false;
};

// Reads, applies settings and defaults, and checks everything that needs no other file, except
// whether Strata can do it yet (CheckSupported in validate.h). Problems are added to `problems`;
// what could be read despite them is returned (of a text that is not YAML: the defaults), so that
// the caller can look for further ones. Outside input never crashes it, and time and memory are
// bounded by the 1 MiB that a file may have.
JobFile ReadJob(absl::string_view text, const ReadOptions& options, Problems& problems);

// The job as a file that ReadJob reads back to an equal JobSpec. Only fields that are present are
// written.
std::string WriteJob(const strata::v1::JobSpec& job);

}  // namespace strata::spec

#endif  // STRATA_SPEC_JOB_FILE_H_
