#include "spec/job_file.h"

#include <memory>

#include "spec/defaults.h"
#include "spec/overlay.h"
#include "spec/reader.h"
#include "spec/validate.h"
#include "spec/writer.h"
#include "spec/yaml_tree.h"

namespace strata::spec {
namespace {

// A number of ranks without a parallel section means so many data-parallel ones: `--ranks N`, else
// the file's own. Of `parallel: auto` it is how many there are.
void ApplyRanks(const ReadOptions& options, const PositionMap& positions,
                strata::v1::JobSpec& job) {
  if (job.parallel().automatic()) {
    const bool says = job.resources().has_ranks();
    if (options.ranks.has_value() && !says) job.mutable_resources()->set_ranks(*options.ranks);
    return;
  }
  if (positions.Has("parallel")) return;
  if (options.ranks.has_value()) {
    job.mutable_parallel()->set_data(*options.ranks);
  } else if (job.resources().has_ranks()) {
    job.mutable_parallel()->set_data(job.resources().ranks());
  }
}

void ApplyModel(const ReadOptions& options, strata::v1::JobSpec& job) {
  if (!job.model().has_from() || options.model_of == nullptr) return;
  const std::optional<ModelDirectory> found = options.model_of(job.model().from());
  if (!found.has_value()) return;
  const strata::v1::ModelSpec written = job.model();
  strata::v1::ModelSpec& model = *job.mutable_model();
  model = found->model;
  model.set_from(written.from());
  if (written.has_adapter()) model.set_adapter(written.adapter());
  const bool takes_tokenizer = found->has_tokenizer && !job.data().has_tokenizer();
  if (takes_tokenizer) job.mutable_data()->set_tokenizer(written.from());
}

void ApplyVocabulary(const ReadOptions& options, strata::v1::JobSpec& job) {
  const bool known = job.model().has_vocab() || job.model().has_from();
  if (known || !job.data().has_tokenizer() || options.vocabulary_of == nullptr) return;
  const std::optional<int64_t> vocabulary = options.vocabulary_of(job.data().tokenizer());
  if (vocabulary.has_value()) job.mutable_model()->set_vocab(*vocabulary);
}

}  // namespace

JobFile ReadJob(absl::string_view text, const ReadOptions& options, Problems& problems) {
  JobFile file;
  std::unique_ptr<YamlNode> root = ParseYaml(text, problems);
  if (root != nullptr) {
    for (const std::string& setting : options.settings) ApplySetting(setting, *root, problems);
    ReadTree(*root, "model: {family: llama, …}", file.job, file.positions, problems);
    ApplyRanks(options, file.positions, file.job);
    ApplyModel(options, file.job);
    ApplyVocabulary(options, file.job);
  }
  ApplyDefaults(options.default_name, file.job);
  const bool readable = root != nullptr && (root->kind == YamlNode::Kind::kMapping ||
                                            root->kind == YamlNode::Kind::kNull);
  if (readable) Validate(file.job, file.positions, options, problems);
  return file;
}

std::string WriteJob(const strata::v1::JobSpec& job) { return WriteFile(job); }

}  // namespace strata::spec
